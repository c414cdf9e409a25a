"""Load an example app once and run it in forks, so that a life costs milliseconds, not imports.

`python -m tests.acceptance.prefork APP.PY`: each line of stdin starts a life, and its
process id is the answer. A life runs the app's own `main()`, and ends when somebody kills it.
"""

import gc
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType


def load(path: Path) -> ModuleType:
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def serve_lives(path: Path) -> None:
    module = load(path)
    gc.freeze()
    while sys.stdin.readline():
        child = os.fork()
        if child == 0:
            # The pipe is for process ids; what an app prints goes to its log.
            os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
            try:
                module.main()
            finally:
                os._exit(1)
        print(child, flush=True)
        os.waitpid(child, 0)


if __name__ == "__main__":
    serve_lives(Path(sys.argv[1]))
