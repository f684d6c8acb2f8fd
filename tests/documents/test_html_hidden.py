"""HTML: what a style hides from those who see the page is left out and told, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from fbrag_cli.documents.load import load
from tests.documents.making import written

_DARK = "<style>body { background: #111; color: #eee }</style>"


def left_out(tmp_path: Path, page: str) -> tuple[str, str]:
    """Return the words that are read of a page, and the warning on what is not."""
    document = written(tmp_path, page, "page.html")
    text, told = " ".join(document.text.split()), "".join(document.warnings).partition("not read: ")[2]
    everything = load(str(tmp_path / "page.html"), markup=True)
    assert ("secret" in everything.text) == ("secret" in page)
    assert not everything.warnings
    return text, told.removesuffix(" (--markup reads them)")


@pytest.mark.parametrize(
    ("page", "told"),
    [
        ("<p style='display:none'>secret</p>", "1 hidden passage"),
        ("<p style='DISPLAY : None !important; color: red'>secret</p>", "1 hidden passage"),
        ("<p hidden>secret <b>secret</b></p><p hidden>secret</p>", "1 hidden passage"),
        ("<p hidden>secret</p>seen<p hidden>secret<script>x()</script></p>", "2 hidden passages"),
        ("<p style=visibility:hidden>secret<p style='visibility: collapse'>secret", "1 hidden passage"),
        ("<p style='font-size:0'>secret</p>seen<p style='font: 0/0 a'>secret</p>", "2 hidden passages"),
        ("<p style='font-size:1px'>secret</p>", "1 hidden passage"),
        ("<div style='font-size:10%'><p style='font-size: .5em'>secret</p></div>", "1 hidden passage"),
        ("<p>seen <font color=#FFFFFF>secret</font>", "1 hidden passage"),
        ("<p>seen <span style='color:rgb(254 254 254)'>secret</span>", "1 hidden passage"),
        ("<table><tr><td bgcolor=navy><font color=#000082>secret</font></table>", "1 hidden passage"),
        ("<p style='background: black'>seen <span style='color: #0a0a0a'>secret</span>", "1 hidden passage"),
        ("<style>.old { display: none }</style><p class='price old'>secret</p>", "1 hidden passage"),
        ("<p class=a>secret</p><style>.a{display:none}</style>", "1 hidden passage"),  # below what it hides
        ("<style>#ad, aside { visibility: hidden }</style><p id=ad>secret</p>seen<aside>secret</aside>", "2 hidden passages"),
        ("<style><!-- main > p.x b{display:none} --></style><main><p class=x><i><b>secret</b></i></main>", "1 hidden passage"),
        ("<style>@media screen{.a{display:none}} @media all { p { color: red } }</style><p class=a>secret", "1 hidden passage"),
        ("<style media=print>.a{display:block}</style><style>.a{display:none}</style><p class=a>secret", "1 hidden passage"),
        ("<style>.a{display:none} @media print {.a{display:block}}</style><p class=a>secret", "1 hidden passage"),
        ("<style>p::before{display:block} .a{display:none}</style><p class=a>secret", "1 hidden passage"),
        ("<style>/* .a{ */ b{content:'}'} .a{display:none}</style><p class=a>secret", "1 hidden passage"),
        (
            "<style>.tab{display:none}.tab.open{display:block}</style><p class=tab>secret<p class='tab open'>seen",
            "1 hidden passage",
        ),
        ("<style>.a{display:none!important}</style><p class=a style='display:block'>secret", "1 hidden passage"),
        ("<style>.md\\:a{display:none}</style><p class='md:a'>secret", "1 hidden passage"),
        ("<ul><li>one<li style='display:none'>secret<li>two</ul>", "1 hidden passage"),
        ("<p><s>secret</s> and <span hidden>secret</span></p>", "1 struck-out passage, 1 hidden passage"),
        ("<style>.gone{text-decoration:line-through}</style>now <b class=gone>secret</b>", "1 struck-out passage"),
    ],
)
def test_what_nobody_sees_is_left_out_and_told(tmp_path: Path, page: str, told: str) -> None:
    text, said = left_out(tmp_path, f"<!DOCTYPE html><p>first</p>{page}<p>last</p>")
    assert said == told
    assert "secret" not in text
    assert text.startswith("first")
    assert text.endswith("last")


@pytest.mark.parametrize(
    "page",
    [
        _DARK + "<p style='color:#fff'>seen</p>",
        _DARK + "<p>seen</p>",
        "<style>:root{background:#000} h1{color:white}</style><h1>seen</h1>",
        "<body bgcolor=black text=white>seen",
        "<table><tr><td bgcolor='#003366'><font color=white>seen</font></table>",
        "<table><tr style='background-color: #036'><th style='color: white'>seen</table>",
        "<table bgcolor=000000><tr><td style='color: white'>seen</table>",
        "<div style='background: url(photo.jpg) center / cover'><h1 style='color:white'>seen</h1></div>",
        "<div style='background-image: linear-gradient(red, blue)'><h1 style='color:white'>seen</h1></div>",
        "<style>.hero{background:#fff url(x.png)}.hero h1{color:#fff}</style><div class=hero><h1>seen</h1></div>",
        "<table background=photo.gif><tr><td><font color=white>seen</font></table>",
        "<div style='background: rgba(0, 0, 0, .6)'><p style='color: #fff'>seen</p></div>",
        "<div style='background: var(--dark)'><p style='color: #fff'>seen</p></div>",
        "<p style='color: var(--light)'>seen</p>",
        "<p style='color: transparent; background-clip: text'>seen</p>",
        "<style>body{color:#fff} @media (min-width: 1px) {body{background:#000}}</style><p>seen",
        "<style>a:hover{color:#fff}</style><a href=x>seen</a>",
        "<style>.a{display:none} .a:target{display:block}</style><p class=a id=b>seen",
        "<style>.menu ul{display:none} .menu li:hover > ul{display:block}</style><ul class=menu><li><ul><li>seen</ul></ul>",
        "<style>.panel{display:none} #one:checked ~ .panel{display:block}</style><p class=panel>seen",
        "<style>@media (max-width: 600px) {.wide{display:none}}</style><p class=wide>seen",
        "<style>.d{display:none} @media (min-width: 600px) {.d{display:block}}</style><p class=d>seen",
        "<style>@media print {p{display:none}} @media print and (color) {p{color:#fff}}</style><p>seen",
        "<style media='print'>p{display:none}</style><p>seen",
        "<style>@font-face{font-family:x} @keyframes x {from{display:none} to{visibility:hidden}}</style><p>seen",
        "<style>p:not(.x){display:none} .a + p{display:none} p[lang]{display:none}</style><p>seen",
        "<style>main > p{display:none}</style><main><div><p>seen",
        "<style>.sr-only{position:absolute;width:1px;height:1px;clip:rect(0,0,0,0)}</style><p class=sr-only>seen",
        "<link rel=stylesheet href=x.css><p class=hidden>seen",
        "<!-- <style>p{display:none}</style> --><script>'<style>p{display:none}</style>'</script><p>seen",
        "<details><summary>more</summary>seen</details>",
        "<p hidden=until-found>seen",
        "<style>.x{display:flex}</style><p hidden class=x>seen",
        "<div style='font-size:0'><span style='font-size:16px'>seen</span></div>",
        "<div style='visibility:hidden'><p style='visibility:visible'>seen</p></div>",
        "<p style='font-size: calc(0px + 1rem)'>seen<p style='font: italic bold .8em/1.2 Arial'>seen",
        "<p style='content: \"display:none\"; background-image: url(data:x;display:none)'>seen",
        "<p style='color: #ff0'>seen<p style='color: #999'>seen",
        "<div style='color:#fff'><p style='color:inherit; background:#222'>seen</p></div>",
    ],
)
def test_what_somebody_sees_is_read(tmp_path: Path, page: str) -> None:
    text, said = left_out(tmp_path, f"<!DOCTYPE html><p>first</p>{page}")
    assert not said
    assert text.endswith("seen")


def test_hidden_text_is_read_with_markup_in_its_place(tmp_path: Path) -> None:
    written(tmp_path, "<table><tr><td>a<td hidden>b<td>c</table><ol><li hidden>d<li>e</ol>", "page.html")
    assert load(str(tmp_path / "page.html"), markup=True).text == "a\tb\tc\n\n1. d\n2. e"
    assert load(str(tmp_path / "page.html")).text == "a\tc\n\n1. e"


@pytest.mark.parametrize(
    "page",
    [
        "<style>" + "".join(f".a{n} * .b{n} * p{{display:none}}" for n in range(3000)) + "</style>" + "<div><p>x</p>" * 3000,
        "<style>" + "p{display:block}" * 50_000 + "</style>" + "".join(f"<p id=a{n}>x</p>" for n in range(20_000)),
        "<style>" + " ".join("p" * 50_000) + "{display:none}</style>" + "<p>x",
        "<style>" + "<style>" * 100_000 + "<p>x",
        "<style " * 100_000 + "<p>x",
        "<style>" + "{" * 500_000 + "</style><p>x",
        "<style>" + "@media x{" * 100_000 + "</style><p>x",
        "<style>" + "/*'\"url(" * 100_000 + "</style><p>x",
        f"<p style='{'a' * 1_000_000}'>x",
        f"<p style='{'display:' * 200_000}'>x",
        f"<p style='font-size:{'9' * 500_000}'>x<p style='font-size:{'em ' * 200_000}'>x",
        f"<p style='background:{'(' * 500_000}'>x<p style='background:{'#fff ' * 100_000}'>x",
        "<p style='font-size:900000000em'>" * 300 + "x",
        "<div style='font-size:50%'>" * 3000 + "x",
    ],
)
def test_hostile_styles_end(tmp_path: Path, page: str) -> None:
    written(tmp_path, f"<p>first</p>{page}", "page.html")
