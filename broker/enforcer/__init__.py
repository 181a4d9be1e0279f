"""The enforcer: carries decisions out as client quotas, and takes these back in time."""
