"""Measurements that settled a decision: each stands behind an ADR, and can be made again."""
