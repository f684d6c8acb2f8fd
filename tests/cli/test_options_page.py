from tests.options_page import PAGE, page


def test_the_page_of_all_options_is_up_to_date() -> None:
    assert PAGE.read_text("utf-8") == page(), "python -m tests.options_page"
