"""What the tests of every command share: the command line in this process, and a small network."""

from cli.conftest import run as run
from cli.conftest import start as start
from cli.conftest import tiny as tiny
