"""`pip install mailonce` is enough for the client: it imports Python's own library alone."""

from tests.gate.test_packaging import run


def test_the_client_needs_no_package_at_all() -> None:
    code = """
before = set(sys.modules)
import mailonce
mailonce.Client("http://127.0.0.1:1", "key").close()
mailonce.AsyncClient("http://127.0.0.1:1", "key")
loaded = {name.partition(".")[0] for name in set(sys.modules) - before}
print(*sorted(loaded - sys.stdlib_module_names))
"""
    assert run(code) == "mailonce"
