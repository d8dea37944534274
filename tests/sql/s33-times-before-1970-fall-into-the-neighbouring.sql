-- S33, datafusion#13145; apache/flink#18982 (FLINK-26334): times before 1970 fall into the neighbouring window.
CREATE TABLE t (ts timestamp);
CREATE VIEW v AS select date_bin(interval '30 seconds',ts) w,count(*) n from t group by 1;
--! +t('1969-12-31 19:00:00') +t('1969-12-31 19:00:29.999999') +t('1969-12-31 23:59:59.5') +t('1970-01-01 00:00:00')
--= (1969-12-31 19:00:00, 2) (1969-12-31 23:59:30, 1) (1970-01-01 00:00:00, 1)
--! -t('1969-12-31 19:00:00')
--= (1969-12-31 19:00:00, 1) (1969-12-31 23:59:30, 1) (1970-01-01 00:00:00, 1)
