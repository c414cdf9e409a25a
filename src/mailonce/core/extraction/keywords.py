"""Words that stand beside codes, and beside numbers that are none, by language.

Each is a pattern for folded text (`normalise.fold`): small letters without accents; ";" stands
between them. They are linear: no repetition without a limit, and none inside of another.
"""

import re
from collections.abc import Iterable, Mapping

from mailonce.core.extraction.normalise import fold

# What says that a number beside it is the code.
STRONG: Mapping[str, str] = {
    "en": r"""
        (?:verification|verify|security|authentication|authenticator|authori[sz]ation|auth
            |log-?in|log in|sign-?in|sign in|access|confirmation|activation|recovery|reset
            |validation|guard|device|identity|registration|one[- ]?time|single[- ]use|temporary
            |unique|magic|mfa|2fa|2-step|two-step|(?:four|five|six|seven|eight
            |[4-8])[- ]digit) (?:verification |security |login |sign-in |access )?(?:codes?
            |pins?|passcodes?|pass codes?|passwords?) ;
        otps? ; 2fa ; two-factor ; passcodes? ; pass code ;
        your (?:[a-z0-9-]{1,20} ){0,2}codes?(?! of) ;
        (?:code|pin) (?:[a-z]{1,12} ){0,3}(?:is|are) ;
        code (?:you need|you requested|you asked for|below) ;
        code to (?:log|sign|verify|confirm|complete|continue|finish|access|authenticate) ;
        (?:enter|use|type|input|provide|following) (?:this|the|the following) code ;
        following code ; your token ; (?:security|access) token
    """,
    "de": r"""
        (?:bestatigungs|verifizierungs|verifikations|sicherheits|einmal|anmelde|zugangs|login
            |freischalt|aktivierungs|authentifizierungs|pruf|zugriffs|abhol|freigabe)-?(?:code
            |pin|kode)s? ;
        einmal-?(?:passwort|kennwort) ; code lautet ; (?:ihr|dein|folgenden|diesen) code ;
        mit (?:dem|diesem) code ; [msp]?tan(?= ) ; [msp]?tan(?=:)
    """,
    "fr": r"""
        codes? (?:de |d')(?:verification|confirmation|securite|connexion|validation
            |authentification|activation|acces|identification|retrait) ;
        code (?:a usage unique|temporaire|unique) ; (?:votre|ton|ce|le|du) code(?! p) ;
        pin d'acces ; mot de passe (?:a usage unique|temporaire)
    """,
    "es": r"""
        codigo (?:de |para )(?:verificacion|confirmacion|seguridad|acceso|autenticacion
            |inicio de sesion|iniciar sesion|activacion|validacion|un solo uso|recogida) ;
        codigo (?:unico|temporal) ; (?:tu|su|este|siguiente) codigo(?! p) ;
        contrasena de un solo uso ; pin de acceso ; clave (?:dinamica|temporal)
    """,
    "pt": r"""
        codi de (?:verificacio|confirmacio|seguretat|acces) ;
        codigo de (?:verificacao|seguranca|confirmacao|acesso|autenticacao|ativacao|login
            |uso unico) ;
        (?:seu|teu) codigo(?! (?:p|de r)) ; senha (?:temporaria|de uso unico) ; seu token ;
        token de (?:seguranca|acesso)
    """,
    "it": r"""
        codice (?:di |per )(?:verifica|sicurezza|conferma|accesso|autenticazione|attivazione) ;
        codice (?:temporaneo|monouso|otp) ; (?:tuo|suo|seguente) codice(?! [ps]) ;
        password monouso
    """,
    "nl": r"""
        (?:verificatie|beveiligings|bevestigings|inlog|toegangs|aanmeld|activerings)code ;
        eenmalige (?:code|toegangscode|inlogcode) ; eenmalig wachtwoord ; (?:je|uw) code
    """,
    "pl": r"""
        kod\w{0,3} (?:weryfikacyjn\w{1,3}|potwierdzaj\w{1,4}|bezpieczenstwa|dostepu
            |autoryzacyjn\w{1,3}|odbioru|logowania|jednorazow\w{1,3}|aktywacyjn\w{1,3}) ;
        jednorazow\w{1,3} (?:kod|has[lł]o) ; has[lł]o jednorazowe ; twoj kod
    """,
    "ru": r"""
        код\w{0,2} (?:подтверждения|проверки|доступа|безопасности|авторизации|активации
            |верификации|входа|для входа) ;
        проверочн\w{2,3} код ; одноразов\w{2,3} (?:код|пароль) ; ваш код ; твой код
    """,
    "uk": r"""
        код\w{0,2} (?:підтвердження|безпеки|доступу|перевірки|входу|для входу|авторизації) ;
        одноразов\w{2,3} (?:код|пароль) ; ваш код ; код за (?:потвърждение|вход|достъп|сигурност)
    """,
    "tr": r"""
        (?:dogrulama|guvenlik|onay|giris|aktivasyon|erisim) kod\w{0,8} ;
        tek kullanimlik (?:sifre|kod|parola)\w{0,6}
    """,
    "sv, no, da, fi": r"""
        (?:verifierings|sakerhets|engangs|inloggnings|bekraftelse)kod(?:en)? ; din kod ;
        (?:verifiserings|verifikations|verificerings|sikkerheds|sikkerhets|engangs|bekreftelses
            |bekræftelses|bekrefts?)kode[nr]? ;
        (?:vahvistus|kertakaytto|turva)koodi\w{0,3}
    """,
    "cs, sk, hu, ro, el": r"""
        (?:overovaci|potvrzovaci|bezpecnostni|bezpecnostny|jednorazovy|pristupovy) kod ;
        jednorazove heslo ; (?:ellenorzo|megerosito|biztonsagi|belepesi) kod\w{0,3} ;
        cod(?:ul)? de (?:verificare|securitate|confirmare|acces) ;
        κωδικ\w{2} (?:επαληθευσης|επιβεβαιωσης|ασφαλειας|μιας χρησης|προσβασης)
    """,
    "vi, id": r"""
        ma xac (?:minh|nhan|thuc) ; ma otp ; nhap ma ;
        kode (?:verifikasi|otp|keamanan|konfirmasi|masuk) ; kod (?:pengesahan|verifikasi)
    """,
    "ja": r"""
        (?:認証|確認|検証|セキュリティ|ログイン|アクセス|ワンタイム|本人確認) ?コード ;
        ワンタイム ?パスワード ; 認証 ?番号 ; 認証キー ; パスコード ; 桁の(?:数字|番号|コード)
    """,
    "zh": r"""
        验证码 ; 驗證碼 ; 校验码 ; 校驗碼 ; 动态码 ; 動態碼 ; 动态密码 ; 动态口令 ; 确认码 ;
        確認碼 ; 一次性密[码碼] ; 安全[码碼] ; 登[录錄入]码 ; 激活码 ; 授权码 ; 认证码 ; 認證碼 ;
        一次性验证
    """,
    "ko": r"""
        인증 ?번호 ; 인증 ?코드 ; 확인 ?코드 ; 보안 ?코드 ; 본인 ?확인 ?번호 ;
        일회용 ?(?:비밀번호|코드) ; 로그인 ?코드
    """,
    "ar, fa": r"""
        (?:رمز|كود) (?:ال)?(?:تحقق|تاكيد|دخول|امان|تفعيل|مصادقة) ; كلمة (?:ال)?مرور لمرة واحدة ;
        رمز لمرة واحدة ; کد تایید ; رمز یکبار مصرف
    """,
    "hi": r"""
        सत्यापन कोड ; सुरक्षा कोड ; ओटीपी ; पुष्टिकरण कोड ; वन टाइम पासवर्ड
    """,
    "he, th": r"""
        קוד ה?(?:אימות|אישור|גישה|כניסה) ; קוד חד[- ]פעמי ; รหัสยืนยัน ; รหัส ?otp
    """,
}

# What asks a person to type something in, or to show it.
INPUTS = r"""
    enter(?:ing)? ; typ(?:e|ing) ; input ; use ; using ; provide ; submit ; show ; quote ;
    key in ; geben sie ; gib ; gebt ; eingeben ; einzugeben ; nutzen sie ; verwenden sie ;
    eintippen ; tragen sie ; saisi(?:r|s|ssez) ; entrez ; utilisez ; indiquez ; tapez ;
    presentez ; introdu(?:ce|zca|cir|zcas) ; ingres[ae]r? ; escrib[ea] ; utiliza ; usa ; usar ;
    digit[ea]r? ; inform[ea] ; insira ; utilize ; inserisci ; inserire ; digita ; utilizza ;
    voer ; vul ; gebruik ; typ ; wpisz ; podaj ; uzyj ; введите ; укажите ; используйте ;
    введіть ; вкажіть ; въведете ; girin(?:iz)? ; kullanin(?:iz)? ; yazin(?:iz)? ; ange ; skriv ;
    anvand ; oppgi ; indtast ; bruk ; brug ; syota ; kayta ; zadejte ; opiste ; pouzijte ;
    adja meg ; irja be ; introduceti ; folositi ; εισαγετε ; πληκτρολογηστε ; χρησιμοποιηστε ;
    nhap ; su dung ; masukkan ; gunakan ; 入力 ; 输入 ; 輸入 ; 填写 ; 填寫 ; 입력 ; ادخل ;
    استخدم ; وارد کنید ; दर्ज करें ; उपयोग करें ; הזן ; הקלד ; הזינו ; ใส่ ; กรอก
"""

# What may be about a code, or about any number.
WEAK = r"""
    codes? ; pins? ; tokens? ; codigo ; codice ; kod\w{0,3} ; kode ; koodi ; cod ; код\w{0,2} ;
    κωδικο\w ; コード ; 代码 ; 代碼 ; 코드 ; رمز ; كود ; کد ; कोड ; קוד ; รหัส ; parola ; sifre
"""

# What says that a number right behind it is something else.
OTHER_NUMBERS: Mapping[str, str] = {
    # First, for they hold words of the others: of what starts at one place the first counts.
    "codes": r"""
        (?:error|status|qr|bar|source|exit|product|item|model|style|dress|class|course|country
            |sort|swift|stock|fault|http|response|building|build|colou?r|tax|vat|order|tracking
            |booking|reservation|reference|customer|client|invite|referral|gift|discount|promo
            |promotion|promotional|reward|bonus|loyalty|partner|coupon|voucher|offer|student
            |airport|area|zip|postal) ?codes? ;
        (?:previous|old|earlier|expired|former|last) (?:\w{1,16} )?codes? ;
        (?:alte[rn]?|bisherige[rn]?|vorherige[rn]?) code ; ancien code ; codigo anterior ;
        codice precedente ; vorige code ; poprzedni kod ; (?:предыдущ|стар)\w{2,3} код ; eski kod
    """,
    "examples": r"""
        such as ; for example ; e\.?g ; for instance ; zum beispiel ; z\.? ?b ; par exemple ;
        por ejemplo ; por exemplo ; per esempio ; bijvoorbeeld ; np ; например ; ornegin ; 例如 ;
        例えば
    """,
    "orders": r"""
        orders? ; bestell\w{0,12} ; auftrags?\w{0,8} ; commandes? ; pedidos? ; encomenda ;
        ordin[ei] ; bestelling\w{0,8} ; bestelnummer ; zamowieni\w{1,3} ; заказ\w{0,3} ;
        замовлення ; siparis\w{0,4} ; ordernummer ; objednavk\w{1,3} ; don hang ; pesanan ;
        παραγγελ\w{1,4} ; 注文\w{0,3} ; オーダー ; 订单\w? ; 訂單\w? ; 주문 ?(?:번호)? ; الطلب ;
        طلبك ; ऑर्डर ; הזמנה
    """,
    "documents": r"""
        invoices? ; receipts? ; bills? ; rechnung\w{0,10} ; factures? ; facturas? ;
        fatura\w{0,3} ; fattura ; factuur\w{0,8} ; faktur\w{0,3} ; сч[её]т\w{0,4} ; 請求書 ;
        发票\w? ; contracts? ; vertrag\w{0,8} ; polic(?:y|e) ; versicherungs\w{1,8} ;
        aktenzeichen ; dossier ; protocolo ; documento
    """,
    "parcels": r"""
        tracking ; track ; parcels? ; shipments? ; packages? ; sendung\w{0,10} ; paket\w{0,8} ;
        suivi ; colis ; rastre\w{1,8} ; seguimiento ; spedizione ; przesylk\w{1,3} ;
        przesyłk\w{1,3} ; отправлени\w ; трек\w{0,8} ; kargo ; takip ; 快递\w{0,2} ; 运单\w? ;
        物流\w{0,2} ; 追跡\w{0,2} ; 운송장 ?(?:번호)? ; awb
    """,
    "places": r"""
        zip(?: ?code)? ; postal(?: code)? ; postcode ; postleitzahl ; plz ; code postal ;
        codigo postal ; cep ; cap ; kod\w? pocztow\w{1,3} ; (?:почтовыи )?индекс ; posta kodu ;
        postnummer ; psc ; 郵便番号 ; 〒 ; 邮编 ; 邮政编码 ; 우편 ?번호 ; suite ; apt ; room ;
        raum ; unit ; building ; floor ; p\.? ?o\.? box ; postfach ; الرمز البريدي ; पिन कोड ;
        pin ?code ; kode pos
    """,
    "phones": r"""
        (?:area|country|dialing|dialling) code ; vorwahl ; phone ; tel ; telef?on\w{0,4} ;
        mobile? ; handy ; fax ; call(?: us)?(?: at| on)? ; dial ; text ; sms(?: to)? ; hotline ;
        whatsapp ; tel[eé]fono ; telefone ; telefono ; тел\w{0,6} ; 電話\w{0,2} ; 电话 ;
        客服\w{0,4} ; 전화\w{0,2} ; 고객센터 ; هاتف ; फ[ोौ]न ; טלפון ; reply \w{2,8} to ;
        text \w{2,8} to ; meeting id ; conference id ; extension ; ext
    """,
    "people": r"""
        customers? ; clients? ; accounts? ; konto\w{0,8} ; kunden\w{0,8} ; klant\w{0,8} ; compte ;
        cuenta ; conta ; conto ; cliente ; klient\w{0,3} ; сч[её]та? ; клиент\w{0,2} ; musteri ;
        hesap ; 会员\w{0,2} ; 账号 ; 账户 ; 帳號 ; 会員番号 ; お客様番号 ; 고객 ?번호 ;
        계좌\w{0,3} ; members?(?:hip)? ; user ?id ; employee ; student ; patient ; passport ;
        licen[cs]e ; mitglieds\w{1,8} ; mitglied ; رقم الحساب ; username ; user
    """,
    "cards": r"""
        cards? ; karte\w{0,8} ; carte ; tarjeta ; cartao ; carta ; kaart ; karty? ; карт\w{1,2} ;
        kart ; カード ; 卡号? ; 尾号 ; 카드\w{0,2} ; ending in ; ending with ; ends in ; ending ;
        endet auf ; termina en ; iban ; bic ; visa ; mastercard ; amex ; بطاقة
    """,
    "cases": r"""
        tickets? ; cases? ; references? ; refs? ; referenz\w{0,8} ; vorgangs\w{1,8} ;
        ticketnummer ; reservations? ; bookings? ; buchung\w{0,10} ; reservierung\w{0,8} ;
        reserva\w{0,4} ; prenotazione ; rezervac\w{1,4} ; rezervasyon ; брон\w{1,6} ; pnr ;
        予約番号 ; 预订\w{0,2} ; 예약 ?번호 ; requests? ; transactions? ; transaktion\w{0,8} ;
        confirmation number ; confirmation no ; incidents? ; issues? ; bugs? ; flights? ;
        flug\w{0,6} ; vol ; vuelo ; volo ; рейс\w? ; 航班\w? ; seat ; gate ; train ; обращени\w ;
        заявк\w ; номер ; 问题 ; 工单\w? ; 受付番号 ; 문의\w{0,3} ; 접수\w{0,3} ; لمرجع ;
        رقم الحجز ; numero ; nummer ; number ; numer
    """,
    "things": r"""
        fehler\w{0,6} ; statuscode ; barcode ; qr-code ; sku ; serial ; serien\w{1,8} ; model ;
        modell ; version ; build ; release ; artikel\w{0,8} ; article ; articulo ; copyright ; © ;
        \(c\) ; vat ; ust\w{0,8} ; hrb ; siren ; siret ; p\.? ?iva ; nip ; regon ; инн ; огрн ;
        cnpj ; cpf ; company no ; reg(?:istration)? no ; isbn ; page ; seite ; chapter ; section ;
        lot ; batch ; charge ; port ; バージョン ; 商品番号 ; 型番 ; 编号 ; 版本 ; id ; uid ; n° ;
        nº ; № ; no ; nr ; num
    """,
}

# What says that a code buys something.
PROMOTIONS = r"""
    promo\w{0,12} ; coupons? ; discounts? ; vouchers? ; checkout ; gift ?cards? ; free shipping ;
    \d{1,2} ?% (?:off|rabatt|de) ; % off ; redeem ; referral ; invite code ; offer code ;
    gutschein\w{0,8} ; spar(?:en|st|t) ; rabatt\w{0,8} ; einlos\w{0,6} ; code promo ; remise ;
    reduction ; descuento ; cupon ; desconto ; cupom ; sconto ; buono ; korting\w{0,6} ;
    znizk\w{1,4} ; zniżk\w{1,4} ; rabat\w{0,6} ; скидк\w{1,3} ; промокод\w{0,3} ; купон\w{0,3} ;
    indirim\w{0,4} ; kupon\w{0,3} ; 优惠\w{0,2} ; 折扣 ; 優惠\w{0,2} ; クーポン ; 割引 ; 할인 ;
    쿠폰 ; خصم ; قسيمة ; छूट ; कूपन ; diskon ; giam gia ; kod rabatowy
"""

_LETTER = "a-zß-ɏʀ-ʯͰ-ӿ"


def join_words(blocks: Iterable[str]) -> re.Pattern[str]:
    """Join words; those of alphabets with spaces between words must stand alone."""
    alone: list[str] = []
    anywhere: list[str] = []
    for word in (word for block in blocks for word in block.split(";")):
        # A long one goes on in the next line, which starts with "|".
        folded = fold(re.sub(r"\s*\n\s*(?=\|)", "", word).strip())
        is_alphabetic = re.match(rf"[\\(?:\[]*[{_LETTER}]", folded) is not None
        (alone if is_alphabetic else anywhere).append(folded)
    # Where a word cannot start, one look backwards spares all of them.
    whole = rf"(?<![{_LETTER}0-9])(?:{'|'.join(alone)})(?![{_LETTER}])"
    return re.compile("|".join([whole, *anywhere]))


STRONG_PATTERN = join_words(STRONG.values())
INPUT_PATTERN = join_words([INPUTS])
# "Code:" with nothing before it, unlike "job code" and the like.
LABEL_PATTERN = re.compile(
    fold(
        r"(?:^|\n|[.!?:] ) *(?:code|codigo|codice|kode?|koodi|cod|код|κωδικος|コード|验证|驗證|코드"
        r"|رمز|الرمز|کد|कोड|קוד|รหัส) *[:=-]+ *$"
    )
)
WEAK_PATTERN = join_words([WEAK])
OTHER_NUMBER_PATTERN = join_words(OTHER_NUMBERS.values())
PROMOTION_PATTERN = join_words([PROMOTIONS])
