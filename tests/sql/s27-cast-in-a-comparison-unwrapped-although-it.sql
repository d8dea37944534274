-- S27, datafusion#23095: CAST in a comparison unwrapped although it rounds.
CREATE TABLE t (d decimal(20,4));
CREATE VIEW v AS select d from t where cast(d as decimal(20,2))=cast(1.23 as decimal(20,2));
--! +t(1.2345) +t(1.2399) +t(1.25)
--= (1.2345)
--! +t(1.2251)
--= (1.2251) (1.2345)
--! -t(1.2345)
--= (1.2251)
