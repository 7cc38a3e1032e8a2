#include "csites.h"

#pragma clang diagnostic ignored "-Wc23-extensions"

// A new file gets an array here and a line in the table of its site below; ./pack makes what is embedded.
static const unsigned char console_index_html[] = {
#embed "packed/console/index.html.gz"
};
static const unsigned char console_account_js[] = {
#embed "packed/console/account.js.gz"
};
static const unsigned char console_api_keys_js[] = {
#embed "packed/console/api-keys.js.gz"
};
static const unsigned char console_api_js[] = {
#embed "packed/console/api.js.gz"
};
static const unsigned char console_app_js[] = {
#embed "packed/console/app.js.gz"
};
static const unsigned char console_audit_js[] = {
#embed "packed/console/audit.js.gz"
};
static const unsigned char console_cache_js[] = {
#embed "packed/console/cache.js.gz"
};
static const unsigned char console_certificates_js[] = {
#embed "packed/console/certificates.js.gz"
};
static const unsigned char console_charts_js[] = {
#embed "packed/console/charts.js.gz"
};
static const unsigned char console_configuration_js[] = {
#embed "packed/console/configuration.js.gz"
};
static const unsigned char console_console_css[] = {
#embed "packed/console/console.css.gz"
};
static const unsigned char console_device_js[] = {
#embed "packed/console/device.js.gz"
};
static const unsigned char console_dialog_js[] = {
#embed "packed/console/dialog.js.gz"
};
static const unsigned char console_dom_js[] = {
#embed "packed/console/dom.js.gz"
};
static const unsigned char console_format_js[] = {
#embed "packed/console/format.js.gz"
};
static const unsigned char console_icon_svg[] = {
#embed "packed/console/icon.svg.gz"
};
static const unsigned char console_keys_js[] = {
#embed "packed/console/keys.js.gz"
};
static const unsigned char console_limits_js[] = {
#embed "packed/console/limits.js.gz"
};
static const unsigned char console_live_js[] = {
#embed "packed/console/live.js.gz"
};
static const unsigned char console_now_js[] = {
#embed "packed/console/now.js.gz"
};
static const unsigned char console_outbox_js[] = {
#embed "packed/console/outbox.js.gz"
};
static const unsigned char console_parts_css[] = {
#embed "packed/console/parts.css.gz"
};
static const unsigned char console_people_js[] = {
#embed "packed/console/people.js.gz"
};
static const unsigned char console_purchases_js[] = {
#embed "packed/console/purchases.js.gz"
};
static const unsigned char console_rates_js[] = {
#embed "packed/console/rates.js.gz"
};
static const unsigned char console_refusals_js[] = {
#embed "packed/console/refusals.js.gz"
};
static const unsigned char console_routes_js[] = {
#embed "packed/console/routes.js.gz"
};
static const unsigned char console_switches_js[] = {
#embed "packed/console/switches.js.gz"
};
static const unsigned char console_table_js[] = {
#embed "packed/console/table.js.gz"
};
static const unsigned char console_walk_js[] = {
#embed "packed/console/walk.js.gz"
};
static const unsigned char web_index_html[] = {
#embed "packed/web/index.html.gz"
};
static const unsigned char web_icon_svg[] = {
#embed "packed/web/icon.svg.gz"
};
static const unsigned char web_page_css[] = {
#embed "packed/web/page.css.gz"
};
static const unsigned char web_page_js[] = {
#embed "packed/web/page.js.gz"
};
static const unsigned char web_session_js[] = {
#embed "packed/web/session.js.gz"
};

#define FILE_OF(name, bytes) { name, bytes, sizeof bytes }
#define FILE_AT(files, number) (number) < sizeof files / sizeof *files ? files[number] : (csites_file){ NULL, NULL, 0 }

static const csites_file console_files[] = {
    FILE_OF("index.html", console_index_html),
    FILE_OF("account.js", console_account_js),
    FILE_OF("api-keys.js", console_api_keys_js),
    FILE_OF("api.js", console_api_js),
    FILE_OF("app.js", console_app_js),
    FILE_OF("audit.js", console_audit_js),
    FILE_OF("cache.js", console_cache_js),
    FILE_OF("certificates.js", console_certificates_js),
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
    FILE_OF("switches.js", console_switches_js),
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
