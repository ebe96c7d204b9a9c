"""Versioned changes of tables; what can be replaced at will (views, functions, grants) is in ../sql."""
