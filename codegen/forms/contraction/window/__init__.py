"""Convolutions with static tap lists."""
