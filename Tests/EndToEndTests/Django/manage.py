"""Django's own commands for the service: `python3 manage.py shell`."""

import os
import sys

from django.core.management import execute_from_command_line

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "service.settings")
execute_from_command_line(sys.argv)
