-- ARGV[3]: { { lease, tokens, nanos, counts }, ... }.

sweep()
for _, renewed in ipairs(sent(3)) do
  local lease = load_lease(renewed[1])
  if lease then
    lease.seen = { renewed[2], renewed[3], renewed[4] }
    save_lease(renewed[1], lease)
    live_on(renewed[1])
  end
end
return 0
