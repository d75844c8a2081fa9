"""Lowerings, one file per leaf kind."""
