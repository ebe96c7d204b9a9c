import pytest

pytest.register_assert_rewrite(
    f"{__name__}.served", "tests.integration.library.library", "tests.integration.library.oracle"
)
