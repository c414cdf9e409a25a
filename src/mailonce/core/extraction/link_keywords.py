"""Words by which a link is known as the one to follow, or as one that every mail has.

Patterns are compared with folded text, as those of `keywords`.
"""

import re

from mailonce.core.extraction.keywords import join_words

# What the link does that a mail was sent for.
ACTIONS = r"""
    verif(?:y|ication|ied) ; confirm\w{0,8} ; activat\w{1,4} ; reset\w{0,4} ; magic link ;
    sign(?:ed|ing)?(?: \w{1,4})?[ -]?in ; log(?:ged|ging)?(?: \w{1,4})?[ -]?in ;
    regist(?:er|ration)\w{0,2} ; registrier\w{1,3} ; inscription ; registro ; rejestracj\w ;
    регистраци\w ; kayit ; 登録 ; 注册 ; 註冊 ; 회원가입 ; التسجيل ; लॉगिन ; mengonfirmasi ;
    complete \w{0,6} ?(?:registration|sign-?up) ; set \w{0,6} ?password ;
    change \w{0,6} ?password ; accept\w{0,4} ; validat\w{1,4} ; approv\w{1,4} ;
    authenticat\w{1,4} ; authori[sz]\w{1,6} ; autoris\w{1,5} ; autoriz\w{1,5} ;
    freig(?:abe|eben) ; unlock ; join ; finish \w{0,8} ?(?:sign|registration) ; bestatig\w{1,6} ;
    verifizier\w{1,3} ; aktivier\w{1,3} ; zurucksetz\w{0,3} ; anmelden ; einloggen ;
    freischalt\w{1,3} ; neues passwort ; nouveau mot de passe ; nueva contrasena ; nova senha ;
    nuova password ; nieuw wachtwoord ; nowe has[lł]o ; новый пароль ; yeni sifre ;
    新しいパスワード ; 新密码 ; 새 비밀번호 ; كلمة مرور جديدة ; new password ; review and sign ;
    sign (?:now|document|here|the) ; annehmen ; verifi(?:er|ez) ; confirm(?:er|ez) ;
    activ(?:er|ez) ; reinitialis\w{1,4} ; connexion ; (?:se|vous) connecter ; valid(?:er|ez) ;
    accepter ; verific\w{1,6} ; confirma\w{0,4} ; activar? ; activa ; restablec\w{1,4} ;
    iniciar sesion ; validar ; acceder ; aceptar ; ativar ; redefinir ; entrar ; acessar ;
    aceitar ; conferma\w{0,3} ; autorizzar\w ; attiva\w{0,3} ; reimposta\w{0,3} ; accedi ;
    convalida ; accetta ; bevestig\w{0,3} ; in te loggen ; verifieer ; activeer ; inloggen ;
    herstel\w{0,3} ; potwierdz\w{0,4} ; zweryfikuj ; aktywuj ; zaloguj\w{0,3} ; zresetuj ;
    подтверд\w{1,6} ; активир\w{1,6} ; войти ; вход ; сброс\w{0,6} ; восстанов\w{1,6} ;
    підтверд\w{1,6} ; dogrula\w{0,4} ; onayla\w{0,4} ; etkinlestir\w{0,3} ; giris yap ;
    sifirla\w{0,3} ; bekrafta ; verifiera ; aktivera ; logga in ; bekreft\w{0,3} ;
    bekræft\w{0,3} ; vahvista ; potvrdit ; overit ; aktivovat ; prihlasit ; επιβεβαιω\w{1,4} ;
    επαληθευσ\w{1,3} ; xac (?:minh|nhan|thuc) ; kich hoat ; dang nhap ; verifikasi ; konfirmasi ;
    aktifkan ; 確認 ; 認証 ; 有効化 ; ログイン ; リセット ; 再設定 ; 承認 ; 验证 ; 驗證 ; 确认 ;
    確認 ; 激活 ; 登录 ; 登入 ; 重置 ; 重設 ; 인증 ; 확인 ; 활성화 ; 로그인 ; 재설정 ; تاكيد ;
    تحقق ; تفعيل ; تسجيل الدخول ; اعادة تعيين ; सत्यापित ; पुष्टि ; सक्रिय ; लॉग ?इन ; אימות ;
    אישור ; אמת ; ยืนยัน
"""

# How somebody gets no more such mail.
LEAVING = r"""
    unsubscrib\w{1,3} ; opt[ -]?out ; abmelden ; abbestellen ; desabonn\w{1,4} ; desinscri\w{1,6} ;
    darse de baja ; cancelar \w{0,4} ?suscripcion ; descadastr\w{1,4} ;
    cancelar \w{0,4} ?inscricao ; disiscri\w{1,6} ; annulla iscrizione ; afmelden ; uitschrijven ;
    wypisz\w{0,4} ; отписа\w{1,6} ; відписа\w{1,6} ; abonelikten \w{1,6} ;
    avsluta prenumeration ; avregistrera ; avmelding ; afmeld ; odhlasit ; huy dang ky ;
    berhenti berlangganan ; 配信停止 ; 退订 ; 退訂 ; 取消订阅 ; 수신 ?거부 ; الغاء الاشتراك ;
    सदस्यता समाप्त
"""

# What stands in the footer of any mail, or undoes what it asks for.
ROUTINES = r"""
    preferences ;
    manage \w{0,6} ?(?:subscription|notification|email)s? ; privacy\w{0,8} ; terms\w{0,12} ;
    cookies? ; help\w{0,8} ; support ; contact(?: us)? ; faqs? ; blog ; read more ; learn more ;
    view \w{0,8} ?\w{0,8} ?(?:in \w{0,6} ?browser|online) ; web version ; wasn't (?:you|me) ;
    not (?:you|me) ; didn't \w{1,12} ; did not \w{1,12} ; report\w{0,4} ; deny ; decline ;
    reject ; cancel ; forward to a friend ; download the app ; get the app ; about us ;
    impressum ; datenschutz\w{0,12} ; agb ; einstellungen ; im browser ; hilfe ;
    confidentialite ; mentions legales ; aide ; en ligne ; privacidad\w{0,2} ; ayuda ;
    privacidade ; ajuda ; aiuto
"""

# The same, as words of a path or of a parameter's name.
ACTION_ADDRESS_PATTERN = re.compile(
    r"(?<![a-z])(?:verif\w*|confirm\w*|activat\w*|otp|magic\w*|auth(?:n|z|enticat\w*|ori[sz]\w*)?|reset\w*|invit\w*|valid\w*"
    r"|sign[-_]?in|log[-_]?in|approv\w*|accept\w*|password|recover\w*|token|code|bestaetig\w*"
    r"|aktivier\w*|ticket|secret|signature|sig|key)(?![a-z])"
)
ROUTINE_ADDRESS_PATTERN = re.compile(
    r"(?<![a-z])(?:unsubscribe|opt-?out|preferences|privacy\w*|terms|legal|help|support|faq|blog"
    r"|contact|webview|view-?in-?browser|view-?online|cookies?|impressum|about|social|report"
    r"|cancel|deny|decline)(?![a-z])"
)
SOCIAL_DOMAINS = frozenset(
    {
        "facebook.com", "twitter.com", "x.com", "instagram.com", "linkedin.com", "youtube.com",
        "tiktok.com", "pinterest.com", "discord.gg", "discord.com", "threads.net", "medium.com",
        "t.me", "weibo.com", "vk.com", "reddit.com", "apple.com", "wa.me",
    }
)  # fmt: skip
# Words that say nothing but that there is a link.
PLAIN_PATTERN = re.compile(
    r"(?:(?:please )?(?:click |tap |press )?(?:here|this link|this button|the link below)|hier"
    r"|hier klicken|(?:cliquez )?ici|(?:haz clic )?aqui|clique aqui|(?:clicca )?qui|klik hier|tutaj"
    r"|здесь|сюда|buraya tiklayin|zde|こちら|ここをクリック|(?:点击)?这里|點擊這裡|여기(?:를 클릭)?"
    r"|هنا|اضغط هنا|यहां क्लिक करें)[.!]?"
)
ACTION_PATTERN = join_words([ACTIONS])
ROUTINE_PATTERN = join_words([LEAVING, ROUTINES])
LEAVING_PATTERN = join_words([LEAVING])
