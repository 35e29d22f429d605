-- What is known of each flight the night before: one row an entity and moment of `days`.
--
-- Read: days(as_of), schedule, arrivals, weather. The coming day is [as_of, as_of + 1 day). An entity not scheduled
-- in it is taken as its latest earlier flight, moved to the coming day: `scheduled` is false, and training leaves
-- the row out. Of arrivals only those landed before as_of are seen; of the weather, the hour of departure stands in
-- for the forecast that one would have. `scheduled` and `departs_at` are no features. Where the plane is not known,
-- what is said of it is null.
WITH
coming AS (
  SELECT d.as_of, s.entity, min_by(struct(s.*), s.departs_at) AS flight
  FROM days d JOIN schedule s ON s.departs_at >= d.as_of AND s.departs_at < d.as_of + INTERVAL 1 DAY
  GROUP BY d.as_of, s.entity
),
earlier AS (
  SELECT d.as_of, s.entity, max_by(struct(s.*), s.departs_at) AS flight
  FROM days d JOIN schedule s ON s.departs_at < d.as_of
  GROUP BY d.as_of, s.entity
),
known AS (
  SELECT as_of, true AS scheduled, flight FROM coming
  UNION ALL
  SELECT e.as_of, false AS scheduled, e.flight FROM earlier e LEFT ANTI JOIN coming c USING (as_of, entity)
),
flights AS (
  SELECT
    as_of,
    scheduled,
    flight.*,
    -- The planned time of day, in the coming day; for a scheduled flight this is its own time.
    as_of + make_dt_interval(0, 0, 0, pmod(unix_seconds(flight.departs_at) - unix_seconds(as_of), 86400)) AS leaves_at
  FROM known
),
traffic AS (
  SELECT as_of, flight.origin AS origin, date_trunc('HOUR', flight.departs_at) AS hour_at, count(*) AS flights
  FROM coming
  GROUP BY ALL
),
history AS (
  SELECT
    d.as_of, a.entity, a.carrier, a.origin, a.dest, a.local_hour,
    greatest(-60, least(a.arr_delay, 180)) AS delay,
    CASE WHEN a.arr_delay > 15 THEN 1.0D ELSE 0.0D END AS late,
    a.landed_at >= d.as_of - INTERVAL 1 DAY AS yesterday
  FROM days d JOIN arrivals a ON a.landed_at < d.as_of AND a.landed_at >= d.as_of - INTERVAL 28 DAYS
),
of_entity AS (
  SELECT as_of, entity, avg(delay) AS delay, avg(late) AS late, count(*) AS flights
  FROM history GROUP BY as_of, entity
),
of_carrier AS (
  SELECT as_of, carrier, avg(delay) AS delay, avg(late) AS late, avg(late) FILTER (WHERE yesterday) AS late_yesterday
  FROM history GROUP BY as_of, carrier
),
of_route AS (
  SELECT as_of, origin, dest, avg(delay) AS delay, avg(late) AS late, count(*) AS flights
  FROM history GROUP BY as_of, origin, dest
),
of_hour AS (
  SELECT as_of, origin, local_hour, avg(delay) AS delay, avg(late) AS late
  FROM history GROUP BY as_of, origin, local_hour
),
of_origin AS (
  SELECT as_of, origin, avg(late) AS late_yesterday
  FROM history WHERE yesterday GROUP BY as_of, origin
),
forecast AS (
  SELECT
    *,
    avg(precip) OVER six_hours AS precip_6h,
    avg(visib) OVER six_hours AS visib_6h,
    avg(wind_speed) OVER six_hours AS wind_speed_6h,
    avg(coalesce(wind_gust, 0)) OVER six_hours AS wind_gust_6h,
    max(precip) OVER twelve_hours AS precip_12h,
    min(visib) OVER twelve_hours AS visib_12h
  FROM weather
  WINDOW
    six_hours AS (PARTITION BY origin ORDER BY hour_at RANGE BETWEEN INTERVAL 5 HOURS PRECEDING AND CURRENT ROW),
    twelve_hours AS (PARTITION BY origin ORDER BY hour_at RANGE BETWEEN INTERVAL 11 HOURS PRECEDING AND CURRENT ROW)
)
SELECT
  f.entity,
  f.as_of,
  f.scheduled,
  f.departs_at,
  f.carrier,
  f.origin,
  f.dest,
  f.local_hour,
  pmod(f.weekday + datediff(f.leaves_at, f.departs_at), 7) AS weekday,
  f.distance,
  (unix_seconds(f.arrives_at) - unix_seconds(f.departs_at)) / 60 AS planned_minutes,
  f.seats,
  f.plane_year,
  f.engine,
  f.manufacturer,
  coalesce(t.flights, 0) AS hour_flights,
  f.plane_legs,
  f.plane_slack,
  e.delay AS entity_delay,
  e.late AS entity_late,
  coalesce(e.flights, 0) AS entity_flights,
  c.delay AS carrier_delay,
  c.late AS carrier_late,
  c.late_yesterday AS carrier_late_yesterday,
  r.delay AS route_delay,
  r.late AS route_late,
  coalesce(r.flights, 0) AS route_flights,
  h.delay AS hour_delay,
  h.late AS hour_late,
  o.late_yesterday AS origin_late_yesterday,
  w.temp,
  w.dewp,
  w.humid,
  w.pressure,
  w.wind_speed * sin(radians(w.wind_dir)) AS wind_east,
  w.wind_speed * cos(radians(w.wind_dir)) AS wind_north,
  w.wind_speed,
  w.wind_gust,
  -- Hundredths of an inch, and miles short of the ten that are measured: 0 is fair weather.
  100 * w.precip AS rain,
  10 - w.visib AS haze,
  w.wind_speed_6h,
  w.wind_gust_6h,
  100 * w.precip_6h AS rain_6h,
  10 - w.visib_6h AS haze_6h,
  100 * w.precip_12h AS rain_12h,
  10 - w.visib_12h AS haze_12h
FROM flights f
LEFT JOIN traffic t
  ON t.as_of = f.as_of AND t.origin = f.origin AND t.hour_at = date_trunc('HOUR', f.leaves_at)
LEFT JOIN of_entity e ON e.as_of = f.as_of AND e.entity = f.entity
LEFT JOIN of_carrier c ON c.as_of = f.as_of AND c.carrier = f.carrier
LEFT JOIN of_route r ON r.as_of = f.as_of AND r.origin = f.origin AND r.dest = f.dest
LEFT JOIN of_hour h ON h.as_of = f.as_of AND h.origin = f.origin AND h.local_hour = f.local_hour
LEFT JOIN of_origin o ON o.as_of = f.as_of AND o.origin = f.origin
LEFT JOIN forecast w ON w.origin = f.origin AND w.hour_at = date_trunc('HOUR', f.leaves_at)
