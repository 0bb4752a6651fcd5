"""What engines there are, by name alone: for whoever checks a setting without loading one."""

ENGINE_NAMES = ("continuous",)
