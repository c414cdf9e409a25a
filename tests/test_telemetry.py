"""What /metrics shows, with names and without them."""

from mailonce.telemetry import Metrics


def test_names_of_sources_and_routes_are_shown_with_the_key_alone() -> None:
    metrics = Metrics()
    metrics.name_records({"src_1": "acme-news"}, {"rt_1": "acme-billing"})

    named, summed = (metrics.render(is_named=is_named).decode() for is_named in (True, False))

    assert 'mailonce_source_info{name="acme-news",source="src_1"} 1.0' in named
    assert 'mailonce_route_info{name="acme-billing",route="rt_1"} 1.0' in named
    assert "acme" not in summed
    assert "_info" not in summed


def test_conflicts_of_a_source_count_from_zero() -> None:
    metrics = Metrics()
    metrics.name_records({"src_1": "news"}, {})

    shown = metrics.render(is_named=True).decode()

    assert 'mailonce_arrivals_total{source="src_1",status="accepted"} 0.0' in shown
    assert 'mailonce_conflicts_total{source="src_1"} 0.0' in shown
    assert 'mailonce_dead_letters_total{source="src_1"} 0.0' in shown


def test_a_source_that_was_removed_raises_no_alarm_and_stays_in_the_sums() -> None:
    metrics = Metrics()
    metrics.name_records({"src_1": "news", "src_2": "mail"}, {"rt_1": "billing"})
    metrics.alarms.labels("src_1", "silent").set(1)
    metrics.outgoing.breaker_open.labels("rt_1").set(1)
    for source in ("src_1", "src_2"):
        metrics.of_source(source).count("accepted", new=1, copies=0)

    metrics.name_records({"src_2": "mail"}, {})

    named, summed = (metrics.render(is_named=is_named).decode() for is_named in (True, False))
    assert "src_1" not in named
    assert "rt_1" not in named
    assert 'mailonce_events_total{source="src_2"} 1.0' in named
    assert "mailonce_events_total 2.0" in summed, "a counter that fell would look like a restart"
    assert "mailonce_alarm{" not in summed
    assert "mailonce_breaker_open 1.0" not in summed


def test_a_workspace_sees_its_own_sources_alone() -> None:
    metrics = Metrics()
    metrics.name_records({"src_1": "ours", "src_2": "theirs"}, {"rt_2": "billing"})
    for source in ("src_1", "src_2"):
        metrics.of_source(source).count("accepted", new=1, copies=0)
    metrics.outgoing.breaker_open.labels("rt_2").set(1)

    shown = metrics.render(is_named=True, only=frozenset({"src_1"})).decode()

    assert 'mailonce_events_total{source="src_1"} 1.0' in shown
    assert "mailonce_ready" in shown
    assert not any(word in shown for word in ("src_2", "rt_2", "theirs", "billing"))
