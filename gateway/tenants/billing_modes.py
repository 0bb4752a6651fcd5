"""When a tenant pays: after the month, or before the call."""

POSTPAID, PREPAID = "postpaid", "prepaid"
