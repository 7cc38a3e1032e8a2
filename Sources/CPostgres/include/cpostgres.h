// libpq, and functions for macros that Swift does not import.
#pragma once
#include <postgresql/libpq-fe.h>

static const int CPOSTGRES_SQLSTATE = PG_DIAG_SQLSTATE;
