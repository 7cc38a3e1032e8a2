-- wrk -s deploy/load/requests.lua URL -- FILE [START]
-- Sends the requests in FILE in turn, from the part START (0 to 1) of the file on, each a line with a path and, behind a space, a bearer token if there is one. Reads it as it goes:
-- a million users need no more memory than one.
local file, rest

function init(args)
  file = assert(io.open(args[1]))
  local start = math.floor(file:seek("end") * (tonumber(args[2]) or 0))
  file:seek("set", start)
  if start > 0 then file:read("*l") end
  rest = " HTTP/1.1\r\n"
  for name, value in pairs(wrk.headers) do rest = rest .. name .. ": " .. value .. "\r\n" end
end

function request()
  local line = file:read("*l")
  if not line then
    file:seek("set")
    line = file:read("*l")
  end
  local path, token = line:match("^(%S+) (%S+)$")
  if not token then return "GET " .. line .. rest .. "\r\n" end
  return "GET " .. path .. rest .. "Authorization: Bearer " .. token .. "\r\n\r\n"
end
