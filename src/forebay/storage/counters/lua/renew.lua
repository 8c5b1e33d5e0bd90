-- ARGV[3]: { { lease, tokens, nanos, counts }, ... }.

sweep()
for _, renewed in ipairs(sent(3)) do
  local id, tokens, nanos, counts = unpack(renewed)
  if not counts then tokens, nanos = 0, 0 end
  local lease = load_lease(id) or take_up(id, tokens, nanos)
  if lease then
    lease.seen = { tokens, nanos }
    save_lease(id, lease)
    live_on(id)
  end
end
return 0
