"""When a batch may be written without asking first."""

from mailonce.store.dialects.guess_new_keys import KEYS_MAX, WAIT_MAX, Guess


def key(number: int) -> bytes:
    return number.to_bytes(16, "big")


def test_new_keys_are_guessed_and_known_ones_are_not() -> None:
    guess = Guess()
    guess.remember([key(1)])

    assert guess.allows([key(2)])
    assert not guess.allows([key(2), key(1)])


def test_after_a_wrong_guess_we_ask_first_and_longer_each_time() -> None:
    guess = Guess()
    waits = []
    for _ in range(12):
        guess.was_wrong()
        waited = 0
        while not guess.allows([key(9)]):
            waited += 1
        waits.append(waited)

    assert waits == sorted(waits)
    assert (waits[0], waits[-1]) == (2, WAIT_MAX)


def test_right_guesses_earn_trust_again() -> None:
    guess = Guess()
    for _ in range(8):
        guess.was_wrong()
    while not guess.allows([key(9)]):
        pass

    for _ in range(20):
        guess.was_right()
    guess.was_wrong()

    assert [guess.allows([key(9)]) for _ in range(3)] == [False, False, True]


def test_memory_is_bounded() -> None:
    guess = Guess()
    for start in range(0, 5 * KEYS_MAX, 1000):
        guess.remember(map(key, range(start, start + 1000)))

    assert len(guess._recent) + len(guess._older) <= 2 * KEYS_MAX + 2000
    assert not guess.allows([key(5 * KEYS_MAX - 1)])
