"""A read model made anew beside the live one, compared with it, and put in its place."""
