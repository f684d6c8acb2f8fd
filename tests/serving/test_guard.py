"""Who may ask over TCP, and what hostile clients get: over real connections, byte by byte where need be."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.conftest import INQUIRY
from tests.serving.running import Environment, Served, fbrag, serving, until, user_of

pytest.importorskip("uvicorn")

import anyio
from starlette.responses import Response

from fbrag_cli.serving.process.access import Access

TOKEN = "a-token-of-some-length-0123456789"


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    from tests.conftest import _clean_environment

    folder = tmp_path_factory.mktemp("user")
    return user_of(_clean_environment(folder), folder)


@pytest.fixture(scope="module")
def open_door(user: Environment) -> Iterator[Served]:
    """A process with the token of its user, which requests send."""
    with serving(user, str(INQUIRY), "--port", "0", "-v") as served:
        yield served
        served.end()
        assert "Traceback" not in served.err


@pytest.fixture(scope="module")
def guarded(user: Environment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A process with a token."""
    file = tmp_path_factory.mktemp("secret") / "token"
    file.touch(0o600)
    file.write_text(TOKEN + "\n")
    with serving(user, "--port", "0", "--token-file", str(file)) as served:
        yield served


@pytest.fixture(scope="module")
def page(user: Environment) -> Iterator[Served]:
    """`fbrag ui`, whose browser writes down the address that it is given."""
    file = Path(user["XDG_RUNTIME_DIR"]).with_name("opened")
    browser = file.with_name("browser")
    browser.write_text(f'#!/bin/sh\nprintf "%s" "$1" > {file}\n')
    browser.chmod(0o700)
    with serving({**user, "BROWSER": str(browser)}, str(INQUIRY), "--port", "0", command="ui") as served:
        until(lambda: file.exists() and bool(file.read_text()))
        served.ready["opened"] = file.read_text()
        yield served
        served.end()


def said(body: bytes) -> str:
    record = json.loads(body)
    assert record["schema"] == "fbrag.error/1"
    return str(record["error"]["message"])


def raw(served: Served, data: bytes, *, wait: float = 10, half: bool = False) -> bytes:
    """What comes back for these bytes, until the connection ends, or is silent for a while."""
    with socket.create_connection(("127.0.0.1", served.port), timeout=wait) as connection:
        connection.sendall(data)
        if half:
            connection.shutdown(socket.SHUT_WR)
        found = b""
        try:
            while piece := connection.recv(65536):
                found += piece
        except (TimeoutError, ConnectionResetError):
            pass
        return found


# -- pages of other sites --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1.evil.example", "localhost@evil.example", "", "["]
)
def test_a_name_that_points_here_is_refused(open_door: Served, host: str) -> None:
    response, body = open_door.sent("GET", "/v1/documents", headers={"Host": host.format(port=open_door.port)})
    assert response.status == 403, body
    assert "nothing is served under the name" in said(body)


@pytest.mark.parametrize("host", ["localhost", "localhost:{port}", "127.0.0.1:9000", "[::1]:{port}", "LOCALHOST"])
def test_the_names_of_this_machine_are_served(open_door: Served, host: str) -> None:
    response, body = open_door.sent("GET", "/v1/documents", headers={"Host": host.format(port=open_door.port)})
    assert response.status == 200, body


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://localhost:1", "http://127.0.0.1.evil.example", "file://"]
)
@pytest.mark.parametrize("path", ["/healthz", "/v1/ask", "/", "/no-such"])
def test_a_page_of_another_site_may_not_ask(open_door: Served, origin: str, path: str) -> None:
    for method in ("GET", "POST", "OPTIONS"):
        response, body = open_door.sent(method, path, headers={"Origin": origin})
        assert response.status == 403
        assert said(body) == "a page of another site may not ask"
        assert response.getheader("Access-Control-Allow-Origin") is None


def test_the_own_page_may_ask(open_door: Served) -> None:
    own = {"Origin": f"http://127.0.0.1:{open_door.port}", "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}
    assert open_door.sent("GET", "/v1/documents", headers=own)[0].status == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_what_another_page_embeds_is_refused_and_a_link_is_followed(open_door: Served, site: str) -> None:
    embedded = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"}
    assert open_door.sent("GET", "/v1/documents", headers=embedded)[0].status == 403
    link = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert open_door.sent("GET", "/", headers=link)[0].status != 403


def test_a_site_that_the_user_names_may_ask_and_no_other(user: Environment, tmp_path: Path) -> None:
    site, file = "https://chat.example", tmp_path / "token"
    file.touch(0o600)
    file.write_text(TOKEN)
    options = ["--origin", site, "--port", "0", "--token-file", str(file)]
    with serving(user, str(INQUIRY), *options) as served:

        def asked(method: str, path: str, origin: str, **headers: str) -> Any:
            cross = {"Origin": origin, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}
            return served.request(method, path, headers=cross | headers)[0]

        preflight = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}
        before = asked("OPTIONS", "/v1/chat/completions", site, **preflight)
        assert before.status == 200
        assert {"Authorization", "Content-Type"} <= {*before.headers["Access-Control-Allow-Headers"].split(", ")}
        token = {"Authorization": f"Bearer {TOKEN}"}
        for response, status in ((asked("GET", "/v1/models", site, **token), 200), (asked("GET", "/v1/models", site), 401)):
            assert response.status == status
            assert response.headers["Access-Control-Allow-Origin"] == site
            assert response.headers["Access-Control-Allow-Credentials"] is None
            assert response.headers["Vary"] == "Origin"
        for path in ("/", "/page/outline", "/page/picture/nobody/1", "/healthz"):
            assert asked("GET", path, site, **token).status == 403
        for other in ("https://chat.example.evil.example", "http://chat.example", "https://chat.example:444", "null"):
            assert asked("GET", "/v1/models", other, **token).status == 403
            refused = asked("OPTIONS", "/v1/models", other, **preflight)
            assert refused.status == 400
            assert refused.headers["Access-Control-Allow-Origin"] is None


@pytest.mark.parametrize("site", ["*", "null", "https://chat.example/path", "chat.example", "https://"])
def test_what_is_no_site(user: Environment, site: str) -> None:
    run = fbrag(user, "serve", "--port", "0", "--origin", site)
    assert run.returncode == 2
    assert f"invalid --origin {site}: expected a site" in run.stderr


@pytest.mark.parametrize("path", ["/", "/healthz", "/no-such", "/v1/documents"])
def test_all_responses_forbid_what_no_page_of_ours_needs(open_door: Served, guarded: Served, path: str) -> None:
    for served in (open_door, guarded):
        headers = served.request("GET", path)[0].headers
        policy = headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; ")
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers.get_all("Cache-Control") == ["no-store"]
        assert headers["Server"] is None


# -- users -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Bearer {TOKEN[:-1]}"},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Authorization": TOKEN},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": "Bearer \xff"},
        {"Cookie": f"fbrag={TOKEN}; other"},
        {"Cookie": 'a="\xff'},
    ],
)
def test_without_the_token_nothing_is_answered(guarded: Served, headers: dict[str, str]) -> None:
    for path in ("/", "/v1/documents", "/v1/models", "/no-such", f"/v1/documents?token={TOKEN}"):
        response, body = guarded.request("GET", path, headers=headers)
        assert response.status == 401
        assert response.getheader("WWW-Authenticate") == "Bearer"
        assert "the token is missing" in said(body)
    assert guarded.request("GET", "/healthz")[0].status == 200  # for what watches the process


def test_a_program_sends_the_token(guarded: Served) -> None:
    for scheme in ("Bearer", "bearer"):
        response, _ = guarded.request("GET", "/v1/documents", headers={"Authorization": f"{scheme} {TOKEN}"})
        assert response.status == 200


def test_another_machine_needs_the_token_and_the_name_of_this_one(user: Environment, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.touch(0o600)
    file.write_text(TOKEN)
    options = ["--host", "0.0.0.0", "--port", "0", "--token-file", str(file)]
    with serving(user, *options) as served:
        assert served.ready["url"] == f"http://127.0.0.1:{served.port}/"
        headers = {"Authorization": f"Bearer {TOKEN}"}
        for host, status in {socket.gethostname(): 200, "10.1.2.3": 200, "evil.example": 403}.items():
            assert served.request("GET", "/v1/documents", headers={**headers, "Host": host})[0].status == status
        assert served.request("GET", "/v1/documents")[0].status == 401
        served.end()
        assert served.err.startswith("hint: what is asked goes over the network as it is")


def test_the_page_opens_once_by_the_address_that_the_browser_is_given(page: Served) -> None:
    address = page.ready["opened"]
    assert address.startswith(page.ready["url"] + "?token=")
    path = "/" + address.removeprefix(page.ready["url"])
    assert page.request("GET", "/")[0].status == 401
    response, _ = page.request("GET", path)
    assert (response.status, response.getheader("Location")) == (303, "/")
    cookie = response.getheader("Set-Cookie")
    assert cookie.startswith(f"fbrag-{page.port}=")
    assert {"Path=/", "HttpOnly", "SameSite=strict", "Max-Age=604800"} <= {*cookie.split("; ")}
    value = cookie.partition(";")[0]
    assert page.request("GET", "/", headers={"Cookie": f"a=b; {value}"})[0].status == 200
    assert page.request("GET", "/v1/documents", headers={"Cookie": value})[0].status == 200
    for other in ('seen={"a":1}', "a b=1", "x[0]=1", "a@b=1"):  # of another program on this machine
        assert page.request("GET", "/", headers={"Cookie": f"{other}; {value}"})[0].status == 200
    assert page.request("GET", "/", headers={"Cookie": value.partition("=")[0] + "="})[0].status == 401
    assert page.request("GET", path)[0].status == 401  # others may have seen it, as in the list of processes
    assert value.partition("=")[2] not in address


def test_the_cookie_ends_and_its_end_cannot_be_moved(page: Served) -> None:
    path = f"/?token={page.token}"
    name, _, value = page.request("GET", path)[0].getheader("Set-Cookie").partition(";")[0].partition("=")
    end, _, proof = value.partition("-")
    assert 6.9 * 86400 < int(end) - time.time() < 7.1 * 86400
    others = (f"{int(end) + 9}-{proof}", f"{int(time.time()) - 9}-{proof}", f"-{proof}", proof, end, "x-y", "9" * 5000 + "-x")
    for other in others:
        assert page.request("GET", "/", headers={"Cookie": f"{name}={other}"})[0].status == 401, other[:40]


def asked(access: Access, address: str, cookie: str = "") -> tuple[int, str]:
    """Return the status of a request, and the cookie that it brings."""
    target = urlsplit(address)
    headers = [(b"host", target.netloc.encode()), (b"cookie", cookie.encode())]
    scope = {"type": "http", "method": "GET", "path": target.path, "query_string": target.query.encode(), "headers": headers}
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request"}

    async def send(message: Any) -> None:
        sent.append(message)

    anyio.run(access.guard(Response(), lambda line: None), scope, receive, send)
    brought = dict(sent[0]["headers"]).get(b"set-cookie", b"").decode()
    return sent[0]["status"], brought.partition(";")[0]


def test_a_printed_address_opens_as_long_as_its_process_runs_and_the_cookie_a_week(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (Access(host="127.0.0.1", port=8377, token=TOKEN) for _ in range(2))
    assert TOKEN not in first.page
    assert [asked(each, first.page)[0] for each in (first, first, second)] == [303, 303, 401]
    ticket = first.ticket()
    assert [asked(first, ticket)[0] for _ in range(2)] == [303, 401]
    cookie = asked(first, first.page)[1]
    assert asked(second, second.address, cookie)[0] == 200, "an open page outlives the process"
    now = time.time()
    monkeypatch.setattr("fbrag_cli.serving.process.access.time", lambda: now + 8 * 86400)
    assert asked(second, second.address, cookie)[0] == 401


def test_a_person_without_a_token_gets_a_page_that_says_what_to_do(page: Served) -> None:
    accept = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    for path in ("/", "/?token=used"):
        response, body = page.request("GET", path, headers=accept)
        assert (response.status, response.getheader("Content-Type")) == (401, "text/html; charset=utf-8")
        assert b"<p>Open the whole address that fbrag ui prints" in body
    assert page.request("GET", "/")[0].getheader("Content-Type") == "application/json"


def test_nothing_of_a_request_is_markup_in_the_page_of_its_refusal(page: Served) -> None:
    response, body = page.request("GET", "/", headers={"Accept": "text/html", "Host": "<script>.example"})
    assert response.status == 403
    assert b"&lt;script&gt;" in body
    assert b"<script>" not in body


@pytest.mark.parametrize(
    ("mode", "content", "said"),
    [
        (0o644, TOKEN, "other users can read it"),
        (0o600, "", "holds no token"),
        (0o600, "short", "holds no token"),
        (0o600, "two words of some length", "holds no token"),
        (0o600, "\x1b[31mredredredredred", "holds no token"),
    ],
)
def test_a_file_that_holds_no_token(user: Environment, tmp_path: Path, mode: int, content: str, said: str) -> None:
    file = tmp_path / "token"
    file.write_text(content)
    file.chmod(mode)
    run = fbrag(user, "serve", "--port", "0", "--token-file", str(file))
    assert run.returncode == 2
    assert said in run.stderr


# -- hostile clients -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/../../../../etc/passwd",
        "/page/../../etc/passwd",
        "/page/%2e%2e/%2e%2e/etc/passwd",
        "/page/..%2f..%2f..%2fetc%2fpasswd",
        "//etc/passwd",
        "/page/%00",
        "http://evil.example/",
        "/page/document/..%2f..%2fetc%2fpasswd",
        "/v1/source?document=/etc/passwd",
        "/v1/source?document=../../../../../../etc/passwd",
        "/v1/source?document=%00",
    ],
)
def test_no_path_leads_to_a_file(open_door: Served, path: str) -> None:
    response, body = open_door.sent("GET", path)
    assert response.status in (400, 403, 404)
    assert b"root:" not in body


def test_a_body_that_is_too_large(open_door: Served) -> None:
    head = f"POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {open_door.token}\r\n".encode()
    found = raw(open_door, head + b"Content-Length: 99999999999\r\n\r\n")
    assert found.startswith(b"HTTP/1.1 413 ")
    response, body = open_door.sent("POST", "/v1/ask", body=b"x" * 17_000_000)
    assert response.status == 413
    assert said(body) == "the request has more than 1 MB"
    chunks = (b"x" * 1_000_000 for _ in range(17))
    response, body = open_door.sent("POST", "/v1/ask", body=chunks, encode_chunked=True, headers={"Transfer-Encoding": "chunked"})
    assert response.status == 413


@pytest.mark.parametrize("path", ["/v1/ask", "/v1/documents?name=a.txt"])
def test_a_client_that_leaves_in_mid_request_is_no_fault(user: Environment, tmp_path: Path, path: str) -> None:
    with serving(user, "--port", "0", "-v") as served:
        with socket.create_connection(("127.0.0.1", served.port)) as connection:
            head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {served.token}\r\nContent-Length: 9\r\n\r\n"
            connection.sendall(head.encode() + b"abc")
            time.sleep(0.2)
        assert served.get("/healthz")[0] == 200
        served.end()
    assert f"POST {path.partition('?')[0]} 400" in served.err
    assert "internal error" not in served.err
    assert "Traceback" not in served.err


def test_connections_that_stay_open_leave_room_for_others(open_door: Served) -> None:
    waiting = [socket.create_connection(("127.0.0.1", open_door.port), timeout=5) for _ in range(300)]
    try:
        for each in waiting:
            each.sendall(b"GET /healthz HTTP/1.1\r\n")
        assert open_door.get("/healthz")[0] == 200
        assert open_door.get("/healthz")[0] == 200
    finally:
        for each in waiting:
            each.close()


def test_the_log_says_nothing_of_what_is_asked(user: Environment, tmp_path: Path) -> None:
    with serving(user, str(INQUIRY), "--port", "0", "-v") as served:
        served.sent("POST", "/v1/ask", body=json.dumps({"question": "secretquestion", "settings": {"no": 1}}))
        served.sent("GET", "/v1/source?document=secretname")
        served.request("GET", "/\x1b[31msecret".replace("\x1b", "%1b"))
        served.end()
        assert "POST /v1/ask 400 in " in served.err
        assert "secretquestion" not in served.err
        assert "secretname" not in served.err
        assert "\x1b" not in served.err
