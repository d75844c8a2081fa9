"""The loop nest: how it is built, walked, cleaned, checked and printed."""
