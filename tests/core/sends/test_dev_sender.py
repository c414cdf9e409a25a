"""The sender of `--dev` is known by its id, and by nobody else's."""

from mailonce.core.sends.dev_sender import dev_sender, find_dev_sender, is_dev


def test_it_is_found_again_by_its_id() -> None:
    sender = dev_sender("shop")

    assert find_dev_sender(sender.id) == sender
    assert (sender.workspace, sender.name) == ("shop", "dev")


def test_senders_that_are_configured_are_never_it() -> None:
    for id_ in ("snr_dev", "snr_dev/default", "snr_01a1e94a54be932ab3302ca7a9b699d9", "", "dev"):
        assert find_dev_sender(id_) is None
        assert not is_dev(id_)
