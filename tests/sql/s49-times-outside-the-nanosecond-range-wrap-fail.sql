-- S49, datafusion#8336, #22610; StreamFusion#64; paimon#9810: times outside the nanosecond range wrap, fail or become NULL in silence.
CREATE TABLE t (id int,ts timestamp);
CREATE VIEW v AS select date_bin(interval '1 day',ts) w,count(*) n from t group by 1;
--! +t(1,'9999-12-31 12:00:00') +t(2,'2024-06-01 12:00:00')
--= (2024-06-01 00:00:00, 1) (9999-12-31 00:00:00, 1)
--! +t(3,'0001-01-01 00:00:00')
--= (0001-01-01 00:00:00, 1) (2024-06-01 00:00:00, 1) (9999-12-31 00:00:00, 1)
--! -t(1,'9999-12-31 12:00:00')
--= (0001-01-01 00:00:00, 1) (2024-06-01 00:00:00, 1)
