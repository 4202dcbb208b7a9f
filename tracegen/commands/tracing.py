"""The commands under the names by which an earlier installation finds them."""

from tracegen.commands.doctor import doctor as doctor
from tracegen.commands.profile import profile as profile
from tracegen.commands.trace import trace as trace
