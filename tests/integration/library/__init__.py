import pytest

pytest.register_assert_rewrite(f"{__name__}.library", f"{__name__}.oracle")
