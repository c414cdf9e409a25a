"""A Postfix of our own that hands all mail to one server, or takes it, in a folder of its own."""

import os
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

DAEMONS = Path("/usr/lib/postfix/sbin")
MAIN = """
compatibility_level = 3.6
queue_directory = {folder}/queue
data_directory = {folder}/data
daemon_directory = {daemons}
command_directory = /usr/sbin
meta_directory = /etc/postfix
mail_owner = postfix
setgid_group = postdrop
maillog_file_prefixes = {folder}
maillog_file = {folder}/log
myhostname = sender.test
myorigin = sender.test
mydestination =
local_recipient_maps =
alias_maps =
alias_database =
inet_interfaces = loopback-only
inet_protocols = ipv4
relayhost = [127.0.0.1]:{port}
smtp_dns_support_level = disabled
smtp_tls_security_level = encrypt
smtp_tls_loglevel = 1
queue_run_delay = 1s
minimal_backoff_time = 1s
maximal_backoff_time = 2s
notify_classes =
"""
MASTER = """
pickup unix n - n 1 1 pickup
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
tlsmgr unix - - n 1000? 1 tlsmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
scache unix - - n - 1 scache
smtp unix - - n - - smtp
relay unix - - n - - smtp
error unix - - n - - error
retry unix - - n - - error
discard unix - - n - - discard
showq unix n - n - - showq
postlog unix-dgram n - n - 1 postlogd
"""
# It takes all mail, and throws it away once it is queued and logged.
RECEIVING_MAIN = """
mynetworks = 127.0.0.0/8
smtpd_relay_restrictions = permit_mynetworks, reject
smtpd_recipient_restrictions = permit_mynetworks, reject
smtpd_peername_lookup = no
smtpd_client_connection_count_limit = 0
smtpd_client_connection_rate_limit = 0
in_flow_delay = 0
default_transport = discard
relay_transport = discard
"""
RECEIVING_MASTER = """
127.0.0.1:{port} inet n - n - 60 smtpd
anvil unix - - n - 1 anvil
proxymap unix - - n - - proxymap
"""
_SENT = re.compile(r"postfix/discard\[\d+\]: \w+: to=<([^>]*)>.* status=sent")


def why_not() -> str | None:
    """Say why no Postfix can be run here, if so."""
    if shutil.which("postfix") is None or not DAEMONS.is_dir():
        return "Postfix is not installed; tests/acceptance/install_senders.sh does it for root"
    return None if os.geteuid() == 0 else "only root can run a Postfix of its own"


@dataclass(frozen=True, slots=True)
class Postfix:
    """A running Postfix."""

    folder: Path

    @property
    def config(self) -> Path:
        return self.folder / "config"

    @property
    def log(self) -> str:
        path = self.folder / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    def send(self, sender: str, recipients: list[str], mail: bytes) -> None:
        """Hand a mail over; it is sent from the queue, again and again where it must be."""
        subprocess.run(
            ["/usr/sbin/sendmail", "-C", self.config, "-i", "-f", sender, "--", *recipients],
            input=mail,
            check=True,
        )

    def sent(self) -> Counter[str]:
        """Count the mails that it took and delivered, by recipient, as its log has it."""
        return Counter(_SENT.findall(self.log))

    def is_empty(self) -> bool:
        """Say whether nothing is left in the queue."""
        command = ["/usr/sbin/postqueue", "-c", str(self.config), "-j"]
        return subprocess.run(command, check=True, capture_output=True).stdout.strip() == b""


@contextmanager
def receiving_postfix(port: int) -> Iterator[Postfix]:
    """Run a Postfix that listens on a port of this machine and takes mail for everybody."""
    main = MAIN.replace("relayhost = [127.0.0.1]:{port}\n", "") + RECEIVING_MAIN
    with running_postfix(port, main=main, master=MASTER + RECEIVING_MASTER) as postfix:
        yield postfix


@contextmanager
def running_postfix(port: int, *, main: str = MAIN, master: str = MASTER) -> Iterator[Postfix]:
    """Run a Postfix that sends everything to a port of this machine, over STARTTLS alone."""
    # Its users must be able to enter the folder, which pytest's do not let them.
    folder = Path(tempfile.mkdtemp(prefix="mailonce-postfix-"))
    folder.chmod(0o755)
    postfix = Postfix(folder)
    postfix.config.mkdir()
    for name in ("queue", "data"):
        (folder / name).mkdir()
    shutil.chown(folder / "data", "postfix")
    written = main.format(folder=folder, daemons=DAEMONS, port=port)
    (postfix.config / "main.cf").write_text(written)
    (postfix.config / "master.cf").write_text(master.format(port=port))
    try:
        _control(postfix, "start")
        yield postfix
    finally:
        _control(postfix, "abort")
        shutil.rmtree(folder, ignore_errors=True)


def _control(postfix: Postfix, word: str) -> None:
    done = subprocess.run(
        ["/usr/sbin/postfix", "-c", postfix.config, word], check=False, capture_output=True
    )
    if word == "start" and done.returncode:
        raise RuntimeError(f"Postfix did not start: {done.stderr.decode()} {postfix.log}")
