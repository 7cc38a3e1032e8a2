-- Signs one account in, over and over: wrk … -- EMAIL PASSWORD
function init(arguments)
    wrk.method = "POST"
    wrk.headers["Content-Type"] = "application/json"
    wrk.body = string.format('{"email":"%s","password":"%s"}', arguments[1], arguments[2])
end
