#include "cpostgres.h"
