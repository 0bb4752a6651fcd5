"""`python -m gateway`: one gateway process.

All that is imported stays. A collector that looks at it again and again while it comes takes a
sixth of the time until the gateway is ready; `main` sets it to work again once calls are accepted.
"""

import gc
import sys

if __name__ == "__main__":
    gc.disable()
    from gateway.server.process import main

    sys.exit(main())
