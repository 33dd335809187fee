"""`python -m orrery`: the same as the program `orrery`."""

import os
import sys

from orrery import OrreryError, find_program


def main() -> None:
    try:
        program = find_program()
    except OrreryError as error:
        sys.exit(f"orrery: {error}")
    arguments = [program, *sys.argv[1:]]
    if os.name == "nt":
        import subprocess

        sys.exit(subprocess.run(arguments, check=False).returncode)
    os.execv(program, arguments)


if __name__ == "__main__":
    main()
