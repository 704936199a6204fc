"""Redaction: no secret gets through, and other texts stay."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from pegboard_guard.redact import CUT, REDACTED, Redactor

SECRET = "Zq7!planted"
redactor = Redactor()

SECRET_KEYS = """
    password PASSWORD db_password dbPassword api_key apiKey API-KEY x-api-key access_token tokens clientSecret auth
    Authorization Proxy-Authorization private.key Set-Cookie passwd passphrase credentials aws_access_key_id DB_PASS
"""
secret_keys = st.sampled_from(SECRET_KEYS.split())
plain = st.text(alphabet="abc xyz", max_size=8)
planted = st.sampled_from([SECRET, [SECRET], {"value": SECRET}, {SECRET: [1, SECRET]}])


def containing(inner):
    return st.lists(inner, min_size=1, max_size=3) | st.dictionaries(plain, inner, min_size=1, max_size=3)


trees = st.recursive(
    st.builds(lambda key, value: {key: value}, secret_keys, planted) | plain | st.integers(), containing, max_leaves=10
)


@given(trees)
def test_no_secret_gets_through_under_a_key_of_secrets(tree):
    data, _ = redactor.data(tree)
    assert SECRET not in json.dumps(data)


@given(trees, st.integers(1, 2))
def test_no_secret_gets_through_in_json_within_a_text(tree, times):
    """As in the body of a request."""
    for _ in range(times):
        tree = {"body": json.dumps(tree)}
    assert "planted" not in json.dumps(redactor.data(tree)[0])


@given(secret_keys)
def test_no_secret_gets_through_in_half_a_json_text(key):
    assert SECRET not in redactor.text(json.dumps({"a": 1, key: SECRET})[:-1])


@given(st.sampled_from(["my_pin", "PIN", "pinCode"]))
def test_further_keys_can_be_named(key):
    assert Redactor(["*pin*"]).data({key: SECRET})[0] == {key: REDACTED}
    assert redactor.data({key: SECRET})[0] == {key: SECRET}


@pytest.mark.parametrize("key", ["path", "author", "max", "content", "keyboard"])
def test_other_keys_are_not_redacted(key):
    assert redactor.data({key: "value"})[0] == {key: "value"}


def test_every_type_of_value_of_a_secret_key_is_redacted():
    for value in (1234, True, None, 1.5, ["a"], {"a": "b"}):
        assert redactor.data({"password": value})[0] == {"password": REDACTED}


_KEY = "Ab3dEf6hIj9lMn0pQr4tUv8x"


@pytest.mark.parametrize(
    "secret",
    [
        f"sk-{_KEY}",
        f"sk-ant-api03-{_KEY}-{_KEY}",
        f"sk_live_{_KEY}",
        f"whsec_{_KEY}",
        "AKIAIOSFODNN7EXAMPLE",
        f"ghp_{_KEY}",
        f"github_pat_{_KEY}_{_KEY}",
        f"glpat-{_KEY}",
        f"xoxb-123456789-{_KEY}",
        f"xapp-1-{_KEY}",
        f"AIzaSy{_KEY}{_KEY}",
        f"ya29.{_KEY}",
        f"GOCSPX-{_KEY}",
        f"hf_{_KEY}",
        f"npm_{_KEY}{_KEY}",
        f"pypi-{_KEY}",
        f"dop_v1_{'0f' * 20}",
        f"SG.{_KEY}.{_KEY}",
        f"eyJhbGciOiJIUzI1NiJ9.{_KEY}.{_KEY}",
        f"-----BEGIN RSA PRIVATE KEY-----\n{_KEY}\n{_KEY}\n-----END RSA PRIVATE KEY-----",
        f"-----BEGIN PRIVATE KEY-----\n{_KEY}\n{_KEY}",
    ],
)
def test_what_looks_like_a_key_is_redacted_anywhere(secret):
    for before, after in (("", ""), ("use ", " now"), ("(", ")"), ("x='", "'")):
        text = redactor.text(f"{before}{secret}{after}", 5000)
        assert REDACTED in text
        assert not any(part in text for part in secret.split() if len(part) > 12), text
    assert secret not in json.dumps(redactor.data({"note": secret, secret: 1}, 5000)[0])


@pytest.mark.parametrize(
    "text",
    [
        "curl -H 'Authorization: Bearer SECRETVALUE' https://example.com",
        "curl -H 'authorization: SECRETVALUE'",
        "https://ann:SECRETVALUE@example.com/path",
        "postgres://SECRETVALUE:SECRETVALUE@localhost/db",
        "https://example.com/?a=1&access_token=SECRETVALUE&b=2",
        "mysql --password SECRETVALUE -u ann",
        "mysql --db-password=SECRETVALUE -u ann",
        "export API_KEY=SECRETVALUE",
        "export OPENAI_API_KEY='SECRETVALUE and SECRETVALUE'",
        "password: SECRETVALUE",
        "Password = SECRETVALUE",
        '{"password": "SECRETVALUE SECRETVALUE"}',
        '{\\"password\\": \\"SECRETVALUE\\"}',
        "{'client_secret': 'SECRETVALUE'}",
        "client-secret => SECRETVALUE",
        "token := SECRETVALUE",
        'api key: "SECRETVALUE',
        "gpg --passphrase SECRETVALUE",
        "Bearer SECRET4",
        "curl -u ann:SECRETVALUE x",
        "curl -sSuann:SECRETVALUE x",
        "curl --proxy-user 'ann:SECRETVALUE' x",
        "mysql -u ann -pSECRETVALUE db",
        "sshpass -p SECRETVALUE ssh h",
        "docker login -u ann -p SECRETVALUE",
        ["--password", "SECRETVALUE"],
        ["x", ["--api-key", "SECRETVALUE"]],
        ["curl", "-u", "ann:SECRETVALUE"],
        ["mysql", "-u", "ann", "-pSECRETVALUE"],
        ["-H", "Authorization: Bearer SECRETVALUE"],
        ["Bearer", "SECRET4"],
        'Authorization: Digest username="ann", response="SECRET"',
        "Cookie: a=SECRET; b=SECRET",
        "curl -H 'Cookie: a=SECRET; b=SECRET' -b c=SECRET x",
        "https://ann:SECRET@SECRET@example.com/path",
        "curl -u 'ann:SECRET SECRET' x",
        'secret: "a \\"SECRET"',
        "curl --oauth2-bearer SECRET x",
        *("pass=SECRET", "DB_PASS: SECRET", "_auth=SECRET", "?sig=SECRET&a=1", "X-Amz-Signature=SECRET"),
        *(
            "zip -P SECRET a b",
            "7z x -pSECRET a",
            "mongosh -u ann -p SECRET",
            "redis-cli -a SECRET",
            "ldapsearch -w SECRET",
        ),
        "openssl rsa -passin pass:SECRET",
        "curl -H 'Authorization: Bearer SECRET' -u ann:SECRET --proxy-user 'ann:SECRET' --proxy-user bob:SECRET x",
        [["Authorization", "SECRETVALUE"]],
    ],
)
def test_secrets_named_in_a_text_or_earlier_in_a_list_are_redacted(text):
    assert "SECRET" not in json.dumps(redactor.data(text)[0])


@pytest.mark.parametrize(
    "text",
    [
        *("the author of the token paper", "a/b/c.txt", "x = 1", "", "https://example.com:80/a@b", "mkdir -p a/b"),
        *(
            "compass: 3",
            "a bypass=1",
            'a\\ "b": c',
            "signed by ann",
            "sort -p a",
            "https://a.org:80?x=b@c",
            "cookie cutter",
        ),
        *("rsync -au h:/a b", "a bearer of news", ["", "-p", "a"], ["token", "a", "b"], ["git", "push", "-u", "a:b"]),
    ],
)
def test_other_texts_are_not_redacted(text):
    assert redactor.data(text)[0] == text


def test_invalid_json_is_redacted_as_a_text():
    assert (
        redactor.data({"a": "{password: x}", "b": "[" * 10_000, "c": "{" + "x" * 30_000})[0]["a"]
        == f"{{password: {REDACTED}}}"
    )


def test_a_key_pattern_of_several_words_looks_at_keys_only():
    several = Redactor(["*my*pin*", "p?n"])
    assert several.data({"my-old-pin": 1, "pan": 2})[0] == {"my-old-pin": REDACTED, "pan": REDACTED}
    assert several.text("my old pin: 1234") == "my old pin: 1234"


def test_each_further_expression_has_its_own_flags_and_groups():
    several = Redactor(values=[r"(?i)badge (\w)\1", r"(x)(y)\2"])
    assert several.text("BADGE aa, xyy, badge ab") == f"{REDACTED}, {REDACTED}, badge ab"


@given(st.integers(0, 120), st.integers(1, 100))
def test_a_cut_never_leaves_half_a_secret(before, most):
    secret = f"sk-{_KEY}"
    text = redactor.text(f"{'word ' * (before // 5)}{secret} and more words behind it", most)
    assert "sk-Ab3" not in text
    assert len(text) <= most + len(REDACTED) + len(CUT)


def test_long_data_is_cut_and_says_so():
    data, is_cut = redactor.data({"a": "word " * 1000, "b": 1}, 100)
    assert is_cut
    assert len(json.dumps(data)) < 200
    assert redactor.data({"a": "word"}, 100) == ({"a": "word"}, False)
    assert redactor.data([1] * 1000, 100)[1]


def test_what_is_nested_too_deep_is_cut():
    data = "x"
    for _ in range(100):
        data = [data]
    shown, is_cut = redactor.data(data)
    assert is_cut
    assert CUT in json.dumps(shown)


@pytest.mark.parametrize(
    ("value", "shown"),
    [(float("nan"), "(float)"), pytest.param(10**5000, "(int)", id="huge"), (b"x", "(bytes)"), (1.5, 1.5), (-3, -3)],
)
def test_values_that_arent_short_json_are_replaced_by_their_type(value, shown):
    assert redactor.data({"a": value})[0] == {"a": shown}


def test_only_as_much_data_is_read_as_is_logged():
    """So that arguments of megabytes cost no more than short ones."""
    read = []

    class Numbers(list):
        def __iter__(self):
            for item in super().__iter__():
                read.append(item)
                yield item

    redactor.data(Numbers(range(100_000)), 100)
    assert len(read) <= 102
