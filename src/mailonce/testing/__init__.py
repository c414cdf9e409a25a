"""Simulated providers: signed webhooks for your own tests, and for ours.

>>> simulator = make_simulator("sesmetric")
>>> happening = Happening("evt_1", EventType.DELIVERED, "m1", "ann@example.net", 1767225600)
>>> post = simulator.post([happening], now_s=1767225600)
>>> sorted(post.headers)
['Content-Type', 'X-SESMetric-Signature', 'X-SESMetric-Timestamp']

A whole storm of them against a receiver of your own, and what it acknowledged:

    simulator = make_simulator("sendgrid", to="http://127.0.0.1:8000/webhooks/sendgrid")
    plan = make_plan(simulator, Wish(events=60, duplicates=0.3, shuffle=True), now_s=now)
    report = await simulate(simulator, plan, now_s=time.time)
    assert report.untold == []
"""

from mailonce.core.event import EventType
from mailonce.testing.fire import fire
from mailonce.testing.plan import Call, Plan, Wish, make_plan
from mailonce.testing.simulate import Pace, Report, simulate
from mailonce.testing.simulator import Happening, Post, Simulator
from mailonce.testing.simulators import make_simulator, make_simulators
from mailonce.testing.storm import Shot, Storm, make_storm
from mailonce.testing.wire import Heard

__all__ = [
    "Call",
    "EventType",
    "Happening",
    "Heard",
    "Pace",
    "Plan",
    "Post",
    "Report",
    "Shot",
    "Simulator",
    "Storm",
    "Wish",
    "fire",
    "make_plan",
    "make_simulator",
    "make_simulators",
    "make_storm",
    "simulate",
]
