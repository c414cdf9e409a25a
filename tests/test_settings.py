"""What settings say of themselves."""

import re
from pathlib import Path
from typing import Any

import pytest

from mailonce.core.health.checkup import MASTER_KEY_CHARS_MIN
from mailonce.errors import ConfigError
from mailonce.settings import Settings, read_net_settings, read_settings, variables_unread
from mailonce.settings.set_variables import by_record
from mailonce.settings.variables import OTHERS

PAGE = Path(__file__).parent.parent / "docs" / "settings.md"


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("postgresql://me:secret@DB.example:5432/mail?sslmode=require", "//db.example/mail"),
        ("postgres://db.example/mail", "//db.example/mail"),
        ("postgresql://me@db.example:6432/mail", "//db.example:6432/mail"),
        ("postgresql:///mail?host=/run/postgresql&port=5433", "///run/postgresql:5433/mail"),
        ("postgresql://a:1,b:2/mail", "//a:1,b:2/mail"),
    ],
)
def test_a_database_is_named_without_user_password_and_options(url: str, place: str) -> None:
    assert Settings(database=url).database_place == f"postgresql:{place}"


def test_a_file_is_named_as_a_whole_whichever_link_leads_to_it(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)

    places = {Settings(data_dir=one).database_place for one in (tmp_path, tmp_path / "link")}

    assert places == {f"sqlite:///{tmp_path.resolve() / 'mailonce.db'}"}


def test_a_public_url_is_one_that_links_can_begin_with(subtests: pytest.Subtests) -> None:
    for url in (
        "hooks.example.com", "not a url", "ftp://x", "https:/x", "https://", "//hooks.example.com",
        "https://a b.example.com", "https://x.example.com?a=1", "https://x.example.com/#", "https://:1",
        "https://x.example.com:port", "https://me:word@x.example.com", "https://x.test\r\nA: b",
    ):  # fmt: skip
        with subtests.test(url), pytest.raises(ConfigError, match="such as https://mail") as error:
            read_settings(public_url=url)
        assert "`public_url` is wrong" in str(error.value)

    for url in ("https://x.example.com/once/", "http://[::1]:8100", "HTTPS://X.example.com"):
        assert read_settings(public_url=url).public_url == url


def test_a_bracket_in_the_password_of_a_database_is_one_sentence_without_it() -> None:
    with pytest.raises(ConfigError, match="as %5B") as refused:
        read_settings(database="postgresql://me:s3c[ret@h/db")

    assert "s3c" not in str(refused.value)


def test_variables_that_win_over_the_file_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "mailonce.toml"
    file.write_text(
        'port = 8200\nadmin_key = "0123456789012345"\nmaster_key = "1234567890"\n'
        'host = "localhost"\nroles = ["door"]\n[net]\nallow_hosts = ["a"]\n'
        '[sources.pm]\nprovider = "postmark"\nbasic = "u:old"\n[sources.mg]\nprovider = "mailgun"\n'
    )
    for name, value in {
        "MAILONCE_PORT": "8200",
        "MAILONCE_ADMIN_KEY": "0123456789012345",
        "MAILONCE_MASTER_KEY": "1234567890",
        "MAILONCE_HOST": "127.0.0.1",
        "MAILONCE_ROLES": '["door"]',
        "MAILONCE_NET__ALLOW_HOSTS": '["b"]',
        "mailonce_sources__pm__basic": "u:new",
        "MAILONCE_SOURCES__MG": '{"secret": "s3cret"}',
        "MAILONCE_KEY": "mok_1",
        "MAILONCE_LOG_LEVEL": "debug",
    }.items():
        monkeypatch.setenv(name, value)

    settings = read_settings(file)

    assert settings.variables_over_file() == [
        "MAILONCE_HOST", "MAILONCE_NET__ALLOW_HOSTS", "mailonce_sources__pm__basic",
    ]  # fmt: skip
    assert by_record(settings.variables, "sources") == {
        "pm": {"basic": "mailonce_sources__pm__basic"},
        "mg": {"secret": "MAILONCE_SOURCES__MG"},
    }
    assert "MAILONCE_KEY" not in {one.name for one in settings.variables}


def test_a_secret_of_digits_in_a_variable_is_a_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "mailonce.toml"
    file.write_text('[sources.pm]\nprovider = "postmark"\n')
    monkeypatch.setenv("MAILONCE_MASTER_KEY", "1234567890")
    monkeypatch.setenv("MAILONCE_SOURCES__PM__TOKEN", "0.50")
    monkeypatch.setenv("MAILONCE_SOURCES__PM__SECRET", "null")
    monkeypatch.setenv("MAILONCE_SOURCES__PM__BASIC", '["u:1", "u:2"]')
    monkeypatch.setenv("MAILONCE_SUPPRESS", "null")

    settings = read_settings(file)

    source = settings.sources["pm"]
    assert (settings.master_key, source.token, source.secret) == ("1234567890", "0.50", "null")
    assert (source.basic, settings.suppress) == (["u:1", "u:2"], None)


def test_a_variable_that_is_no_setting_is_named_with_the_one_that_was_meant(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("MAILONCE_URL", "MAILONCE_KEY", "MAILONCE_SERVICE_HOST",
                 "MAILONCE_PORT_8100_TCP_ADDR", "mailonce_data_dir", "OTHER_PORT"):  # fmt: skip
        monkeypatch.setenv(name, "1")
    assert variables_unread() == []

    for name in ("MAILONCE_PROT", "MAILONCE_ADMINKEY", "MAILONCE_XYZ", "MAILONCE_SMTP_PORT",
                 "MAILONCE_NET_CA_FILE", "MAILONCE_DATABASE_URL"):  # fmt: skip
        monkeypatch.setenv(name, "a secret")
    read_settings()
    unread = {one.name: one.advice for one in variables_unread()}
    monkeypatch.setenv("MAILONCE_SOURCE__PM__BASIC", "a secret")
    with pytest.raises(ConfigError) as refused:
        read_settings()

    assert unread == {
        "MAILONCE_PROT": "did you mean MAILONCE_PORT?",
        "MAILONCE_ADMINKEY": "did you mean MAILONCE_ADMIN_KEY?",
        "MAILONCE_XYZ": "remove it, or see docs/settings.md",
        "MAILONCE_SMTP_PORT": "did you mean MAILONCE_SMTP__PORT?",
        "MAILONCE_NET_CA_FILE": "did you mean MAILONCE_NET__CA_FILE?",
        "MAILONCE_DATABASE_URL": "did you mean MAILONCE_DATABASE?",
    }
    assert str(refused.value) == (
        "MAILONCE_SOURCE__PM__BASIC names no setting; did you mean MAILONCE_SOURCES__PM__BASIC?"
    )


def test_what_the_client_and_the_pytest_plugin_read_is_no_setting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in OTHERS:
        monkeypatch.setenv(name, "127.0.0.1:2525")

    assert read_settings() == Settings()
    assert variables_unread() == []


@pytest.mark.parametrize("empty", ["", '[""]', '["", "old"]'])
def test_an_empty_master_key_is_refused(monkeypatch: pytest.MonkeyPatch, empty: str) -> None:
    monkeypatch.setenv("MAILONCE_MASTER_KEY", empty)

    with pytest.raises(ConfigError, match="`master_key` is wrong: it is empty; write a key"):
        read_settings()

    monkeypatch.setenv("MAILONCE_MASTER_KEY", '["new", ""]')
    assert read_settings().master_key == ["new", ""], "what the empty one sealed can be read"


def test_two_master_keys_in_one_text_are_refused_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MAILONCE_MASTER_KEY", "new,old")
    with pytest.raises(ConfigError, match=re.escape("""MAILONCE_MASTER_KEY='["new", "old"]'""")):
        read_settings()

    monkeypatch.setenv("MAILONCE_MASTER_KEY", '["new", "old, with a comma"]')
    assert read_settings().master_key == ["new", "old, with a comma"]


@pytest.mark.parametrize("key", ["new\nold", "new\n", '["new\\r\\n", "old"]'])
def test_a_master_key_of_two_lines_is_refused_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("MAILONCE_MASTER_KEY", key)
    with pytest.raises(ConfigError, match="`master_key` is wrong: it has a line break") as refused:
        read_settings()
    assert '\'["new", "old"]\'' in str(refused.value)

    monkeypatch.setenv("MAILONCE_MASTER_KEY", '["new", "old\\n"]')
    assert read_settings().master_key == ["new", "old\n"], "what it sealed can be read"


def test_an_admin_key_and_a_password_have_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    key = "a-long-admin-key\nof-two-lines"
    with pytest.raises(ConfigError, match="`admin_key` is wrong: it has a line break") as refused:
        read_settings(admin_key=key)
    assert "two-lines" not in str(refused.value)

    monkeypatch.setenv("MAILONCE_SMTP__USERS", '{"ann": "pass\\nword"}')
    with pytest.raises(ConfigError, match="the password of 'ann' has a line break"):
        read_settings(smtp={"certificate": tmp_path / "chain.pem"})


NUMBERS = {
    "port": ("port", "port = {}", "a whole number from 0 to 65535"),
    "smtp": ("smtp.port", "smtp.port = {}", "a whole number from 0 to 65535"),
    "tls": ("smtp.tls_port", "smtp.tls_port = {}", "a whole number from 0 to 65535"),
    "sender": (
        "senders.out.port",
        'senders.out = {{ provider = "smtp", host = "h", port = {} }}',
        "a whole number from 1 to 65535",
    ),
}


@pytest.mark.parametrize("wrong", ["181000", "-1", '"no number"', "25.5", "9" * 30])
@pytest.mark.parametrize("name", NUMBERS)
def test_a_port_that_is_none_is_told_with_its_name_and_range(
    tmp_path: Path, name: str, wrong: str
) -> None:
    setting, line, takes = NUMBERS[name]
    file = tmp_path / "mailonce.toml"
    file.write_text(line.format(wrong))

    with pytest.raises(ConfigError, match=f"`{setting}` is wrong: write {takes}; see") as refused:
        read_settings(file)

    assert "no number" not in str(refused.value)


@pytest.mark.parametrize("wrong", ["181000", "-1", "abc", "", "8100 "])
def test_a_port_of_a_variable_is_told_alike(monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    for variable, setting in (("MAILONCE_PORT", "port"), ("MAILONCE_SMTP__PORT", "smtp.port")):
        monkeypatch.setenv(variable, wrong)
        if wrong == "8100 ":
            read_settings()
        else:
            with pytest.raises(ConfigError, match=rf"`{setting}` is wrong: write a whole number"):
                read_settings()
        monkeypatch.delenv(variable)


def test_other_numbers_are_told_with_the_limits_that_they_have(tmp_path: Path) -> None:
    file = tmp_path / "mailonce.toml"
    for line, takes in {
        "facts_days = 0": "`facts_days` is wrong: write a whole number of 1 or more;",
        "smtp.command_timeout_s = 0": "write a number above 0;",
        'routes.a = { url = "https://a.example", timeout_s = 61 }': "a number above 0, 60 at most;",
        "routes.a.waits_s = [-1]": "`routes.a.waits_s.0` is wrong: input should be greater",
    }.items():
        file.write_text(line)
        with pytest.raises(ConfigError, match=re.escape(takes)):
            read_settings(file)


@pytest.mark.parametrize("name", ["MAILONCE_ROLES", "MAILONCE_NET__TRUSTED_PROXIES"])
def test_a_list_in_a_variable_that_is_no_json_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "door")

    with pytest.raises(ConfigError, match="write a list as") as refused:
        read_settings()

    assert "door" not in str(refused.value), "a variable may hold a secret"


def test_a_secret_of_a_source_in_the_file_may_be_a_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "mailonce.toml"
    file.write_text('[sources.main]\nprovider = "sesmetric"\n')
    monkeypatch.setenv("MAILONCE_SOURCES__MAIN__SECRET", "kept apart")

    [source] = read_settings(file).sources.values()

    assert (source.provider, source.secret) == ("sesmetric", "kept apart")


@pytest.mark.parametrize("text", ["", '[sources.other]\nprovider = "postmark"\n'])
def test_a_variable_of_a_source_that_the_file_has_not_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mailonce.toml").write_text(text)
    monkeypatch.setenv("MAILONCE_SOURCES__PM__BASIC", "a:secret")

    with pytest.raises(ConfigError) as refused:
        read_settings()

    assert str(refused.value) == (
        "MAILONCE_SOURCES__PM__BASIC is set, but the settings file has no [sources.pm]; "
        "remove the variable and restart, or put it back"
    )


def test_a_variable_of_a_source_in_a_folder_without_a_file_names_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MAILONCE_SOURCES__PM__SECRET", "kept apart")

    with pytest.raises(ConfigError) as refused:
        read_settings()

    assert str(refused.value) == (
        "MAILONCE_SOURCES__PM__SECRET is set for [sources.pm] of a settings file, but there is no "
        f"mailonce.toml in {tmp_path}; name the file with --config, or run in its folder"
    )


def test_a_source_of_the_file_without_a_provider_is_told_so_with_a_variable_as_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "mailonce.toml"
    file.write_text('[sources.pm]\naccount = "main"\n')
    monkeypatch.setenv("MAILONCE_SOURCES__PM__BASIC", "a:secret")

    with pytest.raises(ConfigError, match=r"`sources\.pm\.provider` is missing"):
        read_settings(file)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("prot = 1", "no setting `prot`; did you mean `port`?"),
        ("[source.a]", "no setting `source`; did you mean `sources`?"),
        ("[net]\nca_fil = 'a'", "no setting `net.ca_fil`; did you mean `net.ca_file`?"),
        (
            "[sources.a]\nprovider = 'ses'\nsekret = 'x'",
            "no setting `sources.a.sekret`; did you mean `sources.a.secret`?",
        ),
        ("zzz = 1", "no setting `zzz`; remove it, or see docs/settings.md for its name"),
    ],
)
def test_a_misspelt_setting_is_named_with_the_one_that_was_meant(
    tmp_path: Path, text: str, words: str
) -> None:
    file = tmp_path / "mailonce.toml"
    file.write_text(text)

    with pytest.raises(ConfigError) as refused:
        read_settings(file)

    assert str(refused.value) == f"there is {words}"


def test_the_documents_say_how_long_a_key_must_be() -> None:
    rows = {
        name: next(line for line in PAGE.read_text().splitlines() if line.startswith(f"| `{name}`"))
        for name in ("admin_key", "master_key")
    }
    with pytest.raises(ConfigError, match="at least 16 characters"):
        read_settings(admin_key="x" * 15)

    assert "admin key of at least 16 characters" in rows["admin_key"]
    assert f"fewer than {MASTER_KEY_CHARS_MIN} characters" in rows["master_key"]


def test_a_file_that_is_not_utf_8_is_one_sentence(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    file = tmp_path / "mailonce.toml"
    for encoding in ("utf-16", "latin-1"):
        file.write_bytes('public_url = "https://bücher.example"\n'.encode(encoding))
        for read in (read_settings, read_net_settings):
            with (
                subtests.test(f"{encoding} {read.__name__}"),
                pytest.raises(ConfigError, match=r"is not UTF-8; save it as UTF-8$"),
            ):
                read(file)


def test_a_byte_order_mark_is_no_part_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "mailonce.toml"
    file.write_text("port = 8200\n", encoding="utf-8-sig")
    monkeypatch.setenv("MAILONCE_SOURCES__OTHER__SECRET", "s")

    with pytest.raises(ConfigError, match=r"no \[sources.other\]"):
        read_settings(file)
    monkeypatch.delenv("MAILONCE_SOURCES__OTHER__SECRET")

    assert read_settings(file).port == 8200


def test_what_has_the_name_of_the_file_and_is_none_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    monkeypatch.chdir(tmp_path)
    file = Path("mailonce.toml")

    with subtests.test("folder"):
        file.mkdir()
        for given in (None, file):
            with pytest.raises(ConfigError, match=r"'mailonce.toml' is a folder, and no file"):
                read_settings(given)
    file.rmdir()
    with subtests.test("link"):
        file.symlink_to("gone.toml")
        for given in (None, file):
            with pytest.raises(ConfigError, match=r"'mailonce.toml' is a link to nothing"):
                read_settings(given)
    file.unlink()

    assert read_settings().file is None


def test_a_file_in_the_place_of_a_secret_is_refused_with_what_to_write(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    file = tmp_path / "mailonce.toml"
    for table, setting, record in (
        *(("sources", one, 'provider = "mailgun"') for one in ("secret", "basic", "token")),
        *(("sources", one, 'provider = "mailgun"') for one in ("public_key", "header", "api_key")),
        ("routes", "secret", 'url = "https://crm.example/hooks"'),
        *(("senders", one, 'provider = "smtp"') for one in ("secret", "password")),
    ):
        with subtests.test(f"{table}.{setting}"):
            file.write_text(f'[{table}.mg]\n{record}\n{setting} = "@/run/secrets/mg"\n')

            with pytest.raises(ConfigError) as refused:
                read_settings(file)

            said = str(refused.value)
            assert f"`{table}.mg.{setting}` is wrong: `@FILE` is for options on the command" in said
            assert f'MAILONCE_{table.upper()}__NAME__{setting.upper()}="$(cat FILE)"' in said


def test_a_file_in_the_place_of_a_key_or_in_a_variable_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[dict[str, Any]] = [
        {"admin_key": "@~/secrets/admin-key"},
        {"master_key": "@./key"},
        {"master_key": ["@/key", "old"]},
        {"smtp": {"certificate": "c", "key": "k", "users": {"ann": "@/run/secrets/ann"}}},
    ]
    for one in given:
        with pytest.raises(ConfigError, match="`@FILE` is for options on the command line"):
            read_settings(**one)
    assert read_settings(master_key=["new", "@/key"]).master_key == ["new", "@/key"], (
        "what a path sealed that was taken for the key can still be read"
    )

    monkeypatch.setenv("MAILONCE_SOURCES__MG__PROVIDER", "mailgun")
    monkeypatch.setenv("MAILONCE_SOURCES__MG__SECRET", '["new", "@/run/secrets/mg"]')
    with pytest.raises(ConfigError, match="`@FILE` is for options"):
        read_settings()
    monkeypatch.setenv("MAILONCE_SOURCES__MG__SECRET", "@word")
    assert read_settings().sources["mg"].secret == "@word"
