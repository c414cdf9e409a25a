"""Play the providers: signed webhooks for your own tests, and for ours.

>>> simulator = make_simulators()["sesmetric"]
>>> happening = Happening("evt_1", EventType.DELIVERED, "m1", "ann@example.net", 1767225600)
>>> post = simulator.post([happening], now_s=1767225600)
>>> sorted(post.headers)
['Content-Type', 'X-SESMetric-Signature', 'X-SESMetric-Timestamp']
"""

from mailonce.core.event import EventType
from mailonce.testing.fire import Heard, fire
from mailonce.testing.simulators import Happening, Post, Simulator, make_simulators
from mailonce.testing.storm import Shot, Storm, make_storm

__all__ = [
    "EventType",
    "Happening",
    "Heard",
    "Post",
    "Shot",
    "Simulator",
    "Storm",
    "fire",
    "make_simulators",
    "make_storm",
]
