"""What the SMTP door answers: RFC 5321's codes, with the enhanced ones of RFC 3463.

A `DoorRefusal` has the code, a word by which it is counted, and the rest of the line. Each says
what the sender can do; none repeats what a client sent, or tells more of us than our name.
"""

from mailonce.edge.connections import CrowdRefusals, DoorRefusal

OK = b"250 2.0.0 OK\r\n"
MAIL_OK = b"250 2.0.0 the mail is stored\r\n"
SENDER_OK = b"250 2.1.0 OK\r\n"
RECIPIENT_OK = b"250 2.1.5 OK\r\n"
SEND_DATA = b"354 send the mail; end it with a line that holds a dot alone\r\n"
VERIFY = b"252 2.1.5 send a mail to find out\r\n"
HELP = b"214 2.0.0 this server takes mail for its own inboxes, as RFC 5321 describes\r\n"
TLS_READY = b"220 2.0.0 begin TLS\r\n"
LOGGED_IN = b"235 2.7.0 logged in\r\n"
GOODBYE = b"221 2.0.0 goodbye\r\n"
# Sent where a client may go on as soon as it has what it asks for.
EMPTY_CHALLENGE = b"334 \r\n"
# "Username:" and "Password:" in Base64, as clients of LOGIN expect them.
ASK_USER = b"334 VXNlcm5hbWU6\r\n"
ASK_PASSWORD = b"334 UGFzc3dvcmQ6\r\n"

UNKNOWN_COMMAND = DoorRefusal(500, "syntax", "5.5.2 there is no such command")
NOT_OFFERED = DoorRefusal(502, "syntax", "5.5.1 this command is not offered")
NOT_SMTP = DoorRefusal(421, "not_smtp", "4.7.0 this is an SMTP server; use another port")
LONG_COMMAND = DoorRefusal(500, "command_bytes", "5.5.2 the command line is too long")
BAD_LINE_END = DoorRefusal(
    550, "line_ending", "5.5.2 a CR or LF stands alone; end every line with CR and LF"
)
BAD_BYTES = DoorRefusal(500, "syntax", "5.5.2 the command has control characters")
NO_ARGUMENT = DoorRefusal(501, "syntax", "5.5.4 this command takes no argument")
NAME_MISSING = DoorRefusal(501, "syntax", "5.5.4 say the name of your host")
BAD_SENDER = DoorRefusal(501, "syntax", "5.1.7 write MAIL FROM:<address>")
BAD_RECIPIENT = DoorRefusal(501, "syntax", "5.1.3 write RCPT TO:<address>")
BAD_PARAMETER = DoorRefusal(501, "syntax", "5.5.4 a parameter is not written as its RFC says")
STRANGE_PARAMETER = DoorRefusal(555, "syntax", "5.5.4 a parameter is not offered")
NEEDS_UTF8 = DoorRefusal(553, "syntax", "5.6.7 an address beyond ASCII needs SMTPUTF8")
HELLO_FIRST = DoorRefusal(503, "sequence", "5.5.1 send EHLO first")
SENDER_TWICE = DoorRefusal(503, "sequence", "5.5.1 MAIL was sent already; send RSET first")
SENDER_FIRST = DoorRefusal(503, "sequence", "5.5.1 send MAIL first")
RECIPIENT_FIRST = DoorRefusal(503, "sequence", "5.5.1 send RCPT first")
NO_RECIPIENT = DoorRefusal(554, "sequence", "5.5.1 none of the recipients was accepted")
NOT_IN_MAIL = DoorRefusal(503, "sequence", "5.5.1 not within a mail; send RSET first")
EARLY_BYTES = DoorRefusal(
    554, "early_bytes", "5.5.0 wait for the reply to this command before you go on"
)

TLS_FIRST = DoorRefusal(530, "tls_required", "5.7.0 send STARTTLS first")
TLS_TWICE = DoorRefusal(503, "sequence", "5.5.1 TLS is in use already")
TLS_AWAY = DoorRefusal(454, "sequence", "4.7.0 TLS is not offered")
TLS_FAILED = DoorRefusal(421, "tls_handshake", "4.7.0 the TLS handshake failed")
LOGIN_FIRST = DoorRefusal(530, "auth_required", "5.7.0 log in with AUTH first")
LOGIN_NEEDS_TLS = DoorRefusal(538, "tls_required", "5.7.11 AUTH needs TLS; send STARTTLS first")
LOGIN_TWICE = DoorRefusal(503, "sequence", "5.5.1 already logged in")
STRANGE_MECHANISM = DoorRefusal(504, "syntax", "5.5.4 use AUTH PLAIN or AUTH LOGIN")
BAD_LOGIN = DoorRefusal(501, "syntax", "5.5.2 the credentials are not written as RFC 4954 says")
LOGIN_CANCELLED = DoorRefusal(501, "syntax", "5.7.0 AUTH was cancelled")
WRONG_LOGIN = DoorRefusal(535, "auth_failed", "5.7.8 the user or the password is wrong")

LARGE_MAIL = DoorRefusal(552, "message_bytes", "5.3.4 the mail is too large")
LONG_LINE = DoorRefusal(
    500, "data_line_bytes", "5.6.0 a line of the mail is too long; encode it as quoted-printable"
)
MANY_RECIPIENTS = DoorRefusal(
    452, "recipients", "4.5.3 too many recipients for one mail; send the others another one"
)
NO_MEMORY = DoorRefusal(452, "held_bytes", "4.3.1 too much is being received; try again later")
NO_STORE = DoorRefusal(451, "unavailable", "4.3.0 the mail cannot be stored now; try again later")
STORE_FULL = DoorRefusal(452, "full", "4.3.1 too much waits to be stored; try again later")

BROKEN = DoorRefusal(421, "unexpected", "4.3.0 an error was logged; try again later")
MANY_COMMANDS = DoorRefusal(421, "commands", "4.7.0 too many commands; connect again")
MANY_ERRORS = DoorRefusal(421, "errors", "4.7.0 too many errors; correct them and connect again")
SLOW_COMMAND = DoorRefusal(421, "command_timeout", "4.4.2 no command came; connect again")
SLOW_DATA = DoorRefusal(421, "data_timeout", "4.4.2 the mail took too long; connect again")
SLOW_HANDSHAKE = DoorRefusal(421, "handshake_timeout", "4.4.2 the handshake took too long")
SLOW_STORE = DoorRefusal(421, "store_timeout", "4.3.0 storing took too long; try again later")
LONG_SESSION = DoorRefusal(421, "session_timeout", "4.4.2 the session was long; connect again")
UNREAD = DoorRefusal(421, "answer_timeout", "4.4.2 replies were not read")
BAD_PROXY = DoorRefusal(421, "proxy_header", "4.7.0 the proxy sent no header of its protocol")
STOPPING = DoorRefusal(421, "stopping", "4.3.2 the server stops; connect again")
MANY_MAILS = DoorRefusal(
    450, "address_mails", "4.7.1 too many mails from this address; try again in a minute"
)
MANY_LOGINS = DoorRefusal(
    421, "address_logins", "4.7.0 too many wrong logins from this address; try again in a minute"
)
MANY_CONNECTS = DoorRefusal(
    421, "address_connects", "4.7.0 too many new connections; connect again in a minute"
)

CROWD = CrowdRefusals(
    make_room=DoorRefusal(
        421, "make_room", "4.7.0 the connection made room for others; connect again"
    ),
    connections=DoorRefusal(
        421, "connections", "4.7.0 too many connections are open; connect again later"
    ),
    address_connections=DoorRefusal(
        421, "address_connections", "4.7.0 too many connections from this address; close some"
    ),
)


def written(refusal: DoorRefusal) -> bytes:
    """Write a refusal as a line of the protocol."""
    return f"{refusal.code} {refusal.detail}\r\n".encode()


def plain_line(code: int, enhanced: str, text: str) -> bytes:
    """Write a reply whose text comes from elsewhere: on one line, in ASCII, of bounded length."""
    kept = "".join(char if " " <= char <= "~" else "?" for char in text[:400])
    return f"{code} {enhanced} {kept}\r\n".encode()
