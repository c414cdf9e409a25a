"""Simulated providers: signed webhooks for your own tests, and for ours.

>>> simulator = make_simulator("sesmetric")
>>> happening = Happening("evt_1", EventType.DELIVERED, "m1", "ann@example.net", 1767225600)
>>> post = simulator.post([happening], now_s=1767225600)
>>> sorted(post.headers)
['Content-Type', 'X-SESMetric-Signature', 'X-SESMetric-Timestamp']

A whole load of them against a receiver of your own, and what it acknowledged:

    simulator = make_simulator("sendgrid", to="http://127.0.0.1:8000/webhooks/sendgrid")
    plan = make_plan(simulator, PlanOptions(events=60, duplicates=0.3, shuffle=True), now_s=now)
    report = await simulate(simulator, plan, now_s=time.time)
    assert report.untold == []

Mail as a provider hands it over, and as a server sends it that lost the answer to its last dot:

    envelope = {"sender": "bob@example.org", "recipients": ["in@example.net"]}
    post = mail_post(simulator, mail, **envelope, now_s=now)
    report = send_mail("127.0.0.1", 2525, mail, **envelope, lost_answers=1)

Mails that an agent must survive, each with what is safe to do with it:

    @pytest.mark.parametrize("mail", hostile_mails(), ids=str)
    def test_my_agent_survives(mail: HostileMail) -> None:
        mail.send("127.0.0.1", 2525, inbox.address)
        assert mail.fault(my_agent(inbox)) is None

Rule: What other people's tests need; it sends only where it is told to.
Imports: `core`, `errors`, `tls`.
"""

from mailonce.core.events.event import EventType
from mailonce.testing.hostile import HostileMail, SafeUse, hostile_mails
from mailonce.testing.inbound import mail_post, mail_posts, mail_settings
from mailonce.testing.load import Load, LoadPost, make_load
from mailonce.testing.plan import Call, Plan, PlanOptions, make_plan
from mailonce.testing.post import post_all
from mailonce.testing.run import SimulationPace, SimulationReport, simulate
from mailonce.testing.simulator import Happening, Post, Simulator
from mailonce.testing.simulators import make_simulator, make_simulators
from mailonce.testing.smtp_sender import SmtpReport, send_mail
from mailonce.testing.wire import PostResponse

__all__ = [
    "Call",
    "EventType",
    "Happening",
    "HostileMail",
    "Load",
    "LoadPost",
    "Plan",
    "PlanOptions",
    "Post",
    "PostResponse",
    "SafeUse",
    "SimulationPace",
    "SimulationReport",
    "Simulator",
    "SmtpReport",
    "hostile_mails",
    "mail_post",
    "mail_posts",
    "mail_settings",
    "make_load",
    "make_plan",
    "make_simulator",
    "make_simulators",
    "post_all",
    "send_mail",
    "simulate",
]
