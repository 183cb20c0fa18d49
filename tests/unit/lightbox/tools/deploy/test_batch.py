"""Batch transform against moto, and its failure against botocore's model."""

from __future__ import annotations

import boto3
import pytest
from botocore.stub import Stubber

from lightbox.tools.deploy import batch, requests
from lightbox.tools.deploy.aws_calls import Aws, Refused
from support.deployment import REGION, plan

RECORDS = batch.Records("s3://b/in", "image/png", payload_mb=10)


def test_a_job_is_made_and_waited_for(aws: Aws, capsys: pytest.CaptureFixture[str]) -> None:
    batch.transform(aws, plan(output="s3://b/answers"), RECORDS, pause=0)
    sagemaker = boto3.client("sagemaker", REGION)
    (summary,) = sagemaker.list_transform_jobs()["TransformJobSummaries"]
    job = sagemaker.describe_transform_job(TransformJobName=summary["TransformJobName"])
    assert job["ModelName"] == plan().model_name
    assert (job["MaxConcurrentTransforms"], job["MaxPayloadInMB"]) == (10, 10)
    assert job["TransformInput"]["ContentType"] == "image/png"
    assert "answers: s3://b/answers" in capsys.readouterr().out
    assert sagemaker.list_endpoints()["Endpoints"] == []


def test_the_reason_of_a_failure_is_shown(aws: Aws) -> None:
    wanted = plan(output="s3://b/answers")
    arn = "arn:aws:sagemaker:eu-central-1:123456789012:transform-job/j"
    job = {
        "TransformJobName": "j",
        "TransformJobArn": arn,
        "ModelName": "m",
        "TransformInput": requests.transform(wanted, "j", "s3://b/in", "image/png", 6)["TransformInput"],
        "TransformResources": {"InstanceType": "ml.c6i.xlarge", "InstanceCount": 1},
        "CreationTime": 0,
        "FailureReason": "AlgorithmError",
    }
    with Stubber(aws.client("sagemaker")) as stub:
        stub.add_response("describe_model", {"ModelName": "m", "ModelArn": arn, "CreationTime": 0})
        stub.add_response("create_transform_job", {"TransformJobArn": arn})
        for state in ("InProgress", "Failed", "Failed"):
            stub.add_response("describe_transform_job", job | {"TransformJobStatus": state})
        with pytest.raises(Refused, match=r"Failed: AlgorithmError\nits log: https://.*TransformJobs"):
            batch.transform(aws, wanted, RECORDS, pause=0)


def test_more_at_once_than_sagemaker_takes_is_refused_before_anything_is_made(aws: Aws) -> None:
    with pytest.raises(Refused, match="--concurrency 10 times --payload-mb 11 is more than 100"):
        batch.transform(aws, plan(output="s3://b/answers"), batch.Records("s3://b/in", payload_mb=11), pause=0)
    assert boto3.client("sagemaker", REGION).list_models()["Models"] == []
