from mailonce.core.mail.dns_records import DnsLookup, DnsRecord, RecordType


def test_a_function_is_a_lookup() -> None:
    def ask(name: str, type_: RecordType) -> list[DnsRecord]:
        return [DnsRecord(name, preference=10)] if type_ == "MX" else []

    lookup: DnsLookup = ask

    assert lookup("mx.test", "MX") == [DnsRecord("mx.test", b"", 10)]
    assert lookup("mx.test", "TXT") == []
