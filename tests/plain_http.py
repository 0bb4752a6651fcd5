"""For clients of servers without TLS, as all are that tests start: no certificate is trusted.

A client would read those of the whole web otherwise, a tenth of a second each time.
"""

from __future__ import annotations

import ssl

NOBODY = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""What a client takes as `verify`."""
