-- For wrk: how many answers each backend gave (X-Backend), and what went wrong, on one line. With a number
-- behind "--" it makes /run/enough after so many answers.
local threads = {}

function setup(thread)
	table.insert(threads, thread)
end

function init(args)
	most = tonumber(args[1])
	n = 0
	answers = { b1 = 0, b2 = 0, b3 = 0 }
	strange = 0
end

function response(status, headers, body)
	local name = headers["X-Backend"]
	if status == 200 and answers[name] and body == name .. "\n" then
		answers[name] = answers[name] + 1
	else
		strange = strange + 1
	end
	n = n + 1
	if n == most then
		io.open("/run/enough", "w"):close()
	end
end

function done(summary, latency, requests)
	local sum = { b1 = 0, b2 = 0, b3 = 0 }
	local e, n_strange = summary.errors, 0
	for _, thread in ipairs(threads) do
		n_strange = n_strange + thread:get("strange")
		for name, n in pairs(thread:get("answers")) do
			sum[name] = sum[name] + n
		end
	end
	io.write(string.format("counts: requests %d b1 %d b2 %d b3 %d strange %d connect %d read %d " ..
		"write %d timeout %d per_s %d\n", summary.requests, sum.b1, sum.b2, sum.b3, n_strange,
		e.connect, e.read, e.write, e.timeout, summary.requests * 1000000 / summary.duration))
end
