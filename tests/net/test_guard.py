"""The guard: which URLs and addresses may be called."""

import contextlib
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailonce.errors import RefusedError
from mailonce.net import address_guard

LOOPBACK_HOSTS = [
    "127.0.0.1",
    "127.0.0.1.",
    "127.1",
    "127.0.1",
    "2130706433",
    "0x7f000001",
    "0X7F.0.0.1",
    "0x7f.1",
    "0177.0.0.1",
    "017700000001",
    "0177.0x0.0.01",
    "[::1]",
    "[0:0:0:0:0:0:0:1]",
    "[::127.0.0.1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::ffff:0:127.0.0.1]",
    "[64:ff9b::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[64:ff9b:1::7f00:1]",
    "[2002:7f00:1::]",
    "localhost",
    "LOCALHOST.",
    "a.localhost",
]
PRIVATE_HOSTS = [
    "0.0.0.0",
    "0",
    "0x",
    "10.0.0.1",
    "10.1",
    "100.64.0.1",
    "100.127.255.255",
    "169.254.169.254",
    "0xa9fea9fe",
    "2852039166",
    "172.16.0.1",
    "192.0.0.1",
    "192.0.2.1",
    "192.168.1.1",
    "198.18.0.1",
    "203.0.113.9",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "[::]",
    "[fe80::1]",
    "[fec0::1]",
    "[fc00::1]",
    "[fd12:3456::1]",
    "[ff02::1]",
    "[2001:db8::1]",
    "[2001::1]",
    "[100::1]",
    "[2002:a00:1::]",
    "[64:ff9b::a9fe:a9fe]",
    "[::ffff:169.254.169.254]",
]


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("host", LOOPBACK_HOSTS + PRIVATE_HOSTS)
def test_an_address_that_is_not_public_is_refused_in_every_spelling(host: str, scheme: str) -> None:
    with pytest.raises(RefusedError, match=r"not a public address"):
        address_guard.check_url(f"{scheme}://{host}/path")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.com",
        "//example.com/",
        "ftp://example.com/",
        "file:///etc/passwd",
        "gopher://example.com/",
        "https://",
        "https:///path",
        "https://user@example.com/",
        "https://user:password@example.com/",
        "https://example.com@127.0.0.1/",
        "https://127.0.0.1\\@example.com/",
        "https://example.com\t/",
        "https://exa\nmple.com/",
        " https://example.com/",
        "https://127%2e0%2e0%2e1/",
        "https://%6c%6fcalhost/",
        "https://①②⑦.0.0.1/",
        "https://127。0。0。1/",
        "https://ⓛocalhost/",
        "https://[fe80::1%25eth0]/",
        "https://[::1",
        "https://[v1.x]/",
        "https://256.256.256.256/",
        "https://1.2.3.4.5/",
        "https://127.0.0.09/",
        "https://4294967296/",
        "https://example.com:0/",
        "https://example.com:65536/",
        "https://example.com:22/",
        "https://example.com:25/",
        "https://exam..ple.com/",
        "https://example.com/" + "a" * 2048,
    ],
)
def test_what_could_be_read_in_two_ways_is_refused(url: str) -> None:
    with pytest.raises(RefusedError):
        address_guard.check_url(url)


@pytest.mark.parametrize(
    ("url", "host", "port"),
    [
        ("https://example.com", "example.com", 443),
        ("http://Example.COM./x?y=1#z", "example.com", 80),
        ("https://example.com:8443/", "example.com", 8443),
        ("https://xn--bcher-kva.example/", "xn--bcher-kva.example", 443),
        ("https://8.8.8.8/", "8.8.8.8", 443),
        ("https://0x08080808/", "8.8.8.8", 443),
        ("https://[2606:4700::1111]/", "2606:4700::1111", 443),
        ("https://[::ffff:8.8.8.8]/", "::ffff:808:808", 443),
        ("https://3com.example.org/", "3com.example.org", 443),
    ],
)
def test_a_public_url_passes_with_its_host_in_one_spelling(url: str, host: str, port: int) -> None:
    target = address_guard.check_url(url)

    assert (target.host, target.port, target.allowed) == (host, port, False)


@pytest.mark.parametrize(
    ("entry", "url", "passes"),
    [
        ("localhost", "http://localhost:9/", True),
        ("LocalHost", "http://localhost./", True),
        ("127.0.0.1", "http://0x7f.1/", True),
        ("127.0.0.1", "http://127.0.0.2/", False),
        ("127.0.0.1:9000", "http://127.0.0.1:9000/", True),
        ("127.0.0.1:9000", "http://127.0.0.1:9001/", False),
        ("::1", "http://[::1]:80/", True),
        ("[::1]:81", "http://[::1]:80/", False),
        ("10.0.0.5", "http://[::ffff:10.0.0.5]/", False),
    ],
)
def test_what_the_operator_named_passes_and_nothing_beside_it(
    entry: str,
    url: str,
    passes: bool,  # noqa: FBT001
) -> None:
    if passes:
        assert address_guard.check_url(url, [entry]).allowed
    else:
        with pytest.raises(RefusedError):
            address_guard.check_url(url, [entry])


def test_a_name_below_an_allowed_one_is_not_allowed_with_it() -> None:
    assert address_guard.check_url("https://crm.example.com/", ["crm.example.com"]).allowed
    assert not address_guard.check_url("https://evil.crm.example.com/", ["crm.example.com"]).allowed


@given(st.ip_addresses(v=4), st.sampled_from(["64:ff9b::", "::ffff:", "::", "::ffff:0:"]))
def test_a_carried_address_is_judged_like_the_one_it_carries(
    address: IPv4Address, prefix: str
) -> None:
    carrier = ip_address(f"{prefix}{address}")

    if address_guard.fault_of(address) is not None:
        assert address_guard.fault_of(carrier) is not None


@given(st.ip_addresses(v=4))
def test_every_old_notation_is_the_same_address(address: IPv4Address) -> None:
    number = int(address)
    a, b, c, d = address.packed
    spellings = [
        str(number),
        hex(number),
        f"0{number:o}",
        f"{a}.{number & 0xFFFFFF}",
        f"{a:#x}.{b}.{number & 0xFFFF}",
        f"0{a:o}.0{b:o}.0{c:o}.0{d:o}",
    ]

    assert {address_guard.literal_of(spelling) for spelling in spellings} == {address}


@given(st.text(max_size=60))
def test_any_text_is_judged_without_an_error(text: str) -> None:
    for url in (text, f"https://{text}/", f"https://{text}"):
        with contextlib.suppress(RefusedError):
            address_guard.check_url(url, [text])


# Both special-purpose registries of IANA, whatever this version of Python thinks of them.
SPECIAL = [
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
    "192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24",
    "192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
    "224.0.0.0/4", "240.0.0.0/4", "::/128", "::1/128", "64:ff9b:1::/48", "100::/64",
    "100:0:0:1::/64", "2001::/23", "2001:db8::/32", "2620:4f:8000::/48", "3fff::/20", "5f00::/16",
    "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
]  # fmt: skip
ISATAP = ["2600::5efe:10.0.0.1", "2600::200:5efe:127.0.0.1", "fe80::5efe:8.8.8.8", "4000::1"]
PUBLIC = [
    "1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.0", "172.15.255.255", "172.32.0.0",
    "192.0.1.0", "192.88.98.255", "198.17.255.255", "198.20.0.0", "223.255.255.255",
    "2606:4700::1111", "2001:200::1", "2a00::1", "3ffe::1", "64:ff9b::808:808", "2002:808:808::1",
    "::ffff:8.8.8.8", "2600::5efe:8.8.8.8",
]  # fmt: skip


@pytest.mark.parametrize("text", SPECIAL)
def test_no_special_purpose_range_is_public(text: str) -> None:
    network = ip_network(text)

    assert address_guard.fault_of(network[0]) is not None
    assert address_guard.fault_of(network[-1]) is not None


@pytest.mark.parametrize("text", ISATAP)
def test_a_private_address_inside_another_is_found(text: str) -> None:
    assert address_guard.fault_of(ip_address(text)) is not None


@pytest.mark.parametrize("text", PUBLIC)
def test_what_lies_beside_them_is_public(text: str) -> None:
    assert address_guard.fault_of(ip_address(text)) is None


@given(st.ip_addresses())
def test_what_python_calls_local_is_never_public(address: IPv4Address | IPv6Address) -> None:
    if not address.is_global:
        assert address_guard.fault_of(address) is not None


@pytest.mark.parametrize("host", [*LOOPBACK_HOSTS, *PRIVATE_HOSTS])
def test_a_mail_server_inside_is_refused_as_a_url_is(host: str) -> None:
    with pytest.raises(RefusedError):
        address_guard.check_mail_server(host, 587)


@pytest.mark.parametrize(
    ("host", "port"),
    [("", 25), ("a b", 25), ("a\r\nb", 25), ("mail.example.com/x", 25), ("user@example.com", 25),
     ("mail.example.com:25", 25), ("mail.example.com", 0), ("mail.example.com", 65_536),
     ("mail.example.com", 22), ("mail.example.com", 80), ("mail..example.com", 25)],
)  # fmt: skip
def test_what_is_no_mail_server_is_refused(host: str, port: int) -> None:
    with pytest.raises(RefusedError):
        address_guard.check_mail_server(host, port)


def test_a_public_mail_server_passes_and_so_does_one_that_the_operator_named() -> None:
    public = address_guard.check_mail_server("Mail.Example.com.", 465)
    named = address_guard.check_mail_server("10.0.0.7", 26, ["10.0.0.7:26"])

    assert (public.host, public.port, public.allowed) == ("mail.example.com", 465, False)
    assert (named.host, named.allowed) == ("10.0.0.7", True)
    assert address_guard.check_mail_server("mail.example.com", 2525).port == 2525
