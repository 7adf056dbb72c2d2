"""From kernel files to verdicts. Import the modules, not this package; call it: `titan.verify`."""

from titan.foundation.callable_module import make_callable

make_callable(__name__)
