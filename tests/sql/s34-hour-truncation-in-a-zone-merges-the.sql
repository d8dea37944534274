-- S34, risingwave#12072; datafusion#8899: hour truncation in a zone merges the two 01:xx hours of the autumn change.
CREATE TABLE t (ts timestamptz);
CREATE VIEW v AS select cast(w as bigint) w,n from (select cast(extract(epoch from date_trunc('hour',arrow_cast(ts,'Timestamp(Microsecond, Some("America/Los_Angeles"))'))) as bigint) w,count(*) n from t group by 1) z;
--! +t('2023-11-05 08:40:00+00') +t('2023-11-05 09:40:00+00') +t('2023-11-05 10:10:00+00')
--= (1699171200, 1) (1699174800, 1) (1699178400, 1)
