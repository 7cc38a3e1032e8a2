-- wrk -s deploy/load/tokens.lua URL -- FILE
-- Sends the bearer tokens in FILE, one a line, in turn: many users instead of one.
local requests, at = {}, 0

function init(args)
  for line in io.lines(args[1]) do
    wrk.headers["Authorization"] = "Bearer " .. line
    requests[#requests + 1] = wrk.format()
  end
  assert(#requests > 0, "the token file is empty")
end

function request()
  at = at % #requests + 1
  return requests[at]
end
