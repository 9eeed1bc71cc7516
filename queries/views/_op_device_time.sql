-- /// view
-- sentence = "Device time that an operator launched itself: the calls directly in it, operators inside it not counted."
-- needs = ["device_event", "host_event", "_op_scope"]
--
-- [columns]
-- rank = { type = "bigint", doc = "Rank." }
-- event_id = { type = "bigint", doc = "The operator." }
-- device_operations = { type = "bigint", doc = "Number of device operations." }
-- device_ns = { type = "bigint", unit = "ns", doc = "Sum of their durations." }
-- ///
with named as (
  -- Where the launch is not in the capture, the operator's id on the device operation tells.
  select rank, external_id, max(event_id) as event_id
  from host_event
  where kind = 'op' and external_id is not null
  group by rank, external_id
)
select device_event.rank, coalesce(_op_scope.outer_op_id, named.event_id) as event_id, count(*) as device_operations,
  sum(device_event.busy_dur_ns)::bigint as device_ns
from device_event
left join _op_scope on _op_scope.rank = device_event.rank and _op_scope.event_id = device_event.launch_id
left join named on named.rank = device_event.rank and named.external_id = device_event.external_id and device_event.launch_id is null
where coalesce(_op_scope.outer_op_id, named.event_id) is not null
group by all
