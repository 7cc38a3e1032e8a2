#include "csites.h"

#pragma clang diagnostic ignored "-Wc23-extensions"

// A new file gets an array here and a line in the table of its site below.
static const unsigned char console_index_html[] = {
#embed "../Admin/Console/index.html"
};
static const unsigned char console_account_js[] = {
#embed "../Admin/Console/account.js"
};
static const unsigned char console_api_js[] = {
#embed "../Admin/Console/api.js"
};
static const unsigned char console_app_js[] = {
#embed "../Admin/Console/app.js"
};
static const unsigned char console_audit_js[] = {
#embed "../Admin/Console/audit.js"
};
static const unsigned char console_charts_js[] = {
#embed "../Admin/Console/charts.js"
};
static const unsigned char console_configuration_js[] = {
#embed "../Admin/Console/configuration.js"
};
static const unsigned char console_console_css[] = {
#embed "../Admin/Console/console.css"
};
static const unsigned char console_device_js[] = {
#embed "../Admin/Console/device.js"
};
static const unsigned char console_dialog_js[] = {
#embed "../Admin/Console/dialog.js"
};
static const unsigned char console_dom_js[] = {
#embed "../Admin/Console/dom.js"
};
static const unsigned char console_format_js[] = {
#embed "../Admin/Console/format.js"
};
static const unsigned char console_icon_svg[] = {
#embed "../Admin/Console/icon.svg"
};
static const unsigned char console_keys_js[] = {
#embed "../Admin/Console/keys.js"
};
static const unsigned char console_limits_js[] = {
#embed "../Admin/Console/limits.js"
};
static const unsigned char console_live_js[] = {
#embed "../Admin/Console/live.js"
};
static const unsigned char console_now_js[] = {
#embed "../Admin/Console/now.js"
};
static const unsigned char console_outbox_js[] = {
#embed "../Admin/Console/outbox.js"
};
static const unsigned char console_parts_css[] = {
#embed "../Admin/Console/parts.css"
};
static const unsigned char console_people_js[] = {
#embed "../Admin/Console/people.js"
};
static const unsigned char console_purchases_js[] = {
#embed "../Admin/Console/purchases.js"
};
static const unsigned char console_rates_js[] = {
#embed "../Admin/Console/rates.js"
};
static const unsigned char console_refusals_js[] = {
#embed "../Admin/Console/refusals.js"
};
static const unsigned char console_routes_js[] = {
#embed "../Admin/Console/routes.js"
};
static const unsigned char console_table_js[] = {
#embed "../Admin/Console/table.js"
};
static const unsigned char console_walk_js[] = {
#embed "../Admin/Console/walk.js"
};
static const unsigned char web_index_html[] = {
#embed "../Contracts/Web/index.html"
};
static const unsigned char web_icon_svg[] = {
#embed "../Contracts/Web/icon.svg"
};
static const unsigned char web_page_css[] = {
#embed "../Contracts/Web/page.css"
};
static const unsigned char web_page_js[] = {
#embed "../Contracts/Web/page.js"
};
static const unsigned char web_session_js[] = {
#embed "../Contracts/Web/session.js"
};

#define FILE_OF(name, bytes) { name, bytes, sizeof bytes }
#define FILE_AT(files, number) (number) < sizeof files / sizeof *files ? files[number] : (csites_file){ NULL, NULL, 0 }

static const csites_file console_files[] = {
    FILE_OF("index.html", console_index_html),
    FILE_OF("account.js", console_account_js),
    FILE_OF("api.js", console_api_js),
    FILE_OF("app.js", console_app_js),
    FILE_OF("audit.js", console_audit_js),
    FILE_OF("charts.js", console_charts_js),
    FILE_OF("configuration.js", console_configuration_js),
    FILE_OF("console.css", console_console_css),
    FILE_OF("device.js", console_device_js),
    FILE_OF("dialog.js", console_dialog_js),
    FILE_OF("dom.js", console_dom_js),
    FILE_OF("format.js", console_format_js),
    FILE_OF("icon.svg", console_icon_svg),
    FILE_OF("keys.js", console_keys_js),
    FILE_OF("limits.js", console_limits_js),
    FILE_OF("live.js", console_live_js),
    FILE_OF("now.js", console_now_js),
    FILE_OF("outbox.js", console_outbox_js),
    FILE_OF("parts.css", console_parts_css),
    FILE_OF("people.js", console_people_js),
    FILE_OF("purchases.js", console_purchases_js),
    FILE_OF("rates.js", console_rates_js),
    FILE_OF("refusals.js", console_refusals_js),
    FILE_OF("routes.js", console_routes_js),
    FILE_OF("table.js", console_table_js),
    FILE_OF("walk.js", console_walk_js),
};

static const csites_file web_files[] = {
    FILE_OF("index.html", web_index_html),
    FILE_OF("icon.svg", web_icon_svg),
    FILE_OF("page.css", web_page_css),
    FILE_OF("page.js", web_page_js),
    FILE_OF("session.js", web_session_js),
};

csites_file csites_console(size_t number) { return FILE_AT(console_files, number); }

csites_file csites_web(size_t number) { return FILE_AT(web_files, number); }
