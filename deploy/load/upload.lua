-- wrk -s deploy/load/upload.lua URL -- BYTES
-- POSTs a body of that many bytes.
local upload

function init(args)
  wrk.method = "POST"
  wrk.body = string.rep("x", tonumber(args[1]))
  upload = wrk.format()
end

function request() return upload end
