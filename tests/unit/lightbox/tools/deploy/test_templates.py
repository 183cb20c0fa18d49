"""The templates: cfn-lint finds nothing, and each case gives requests that botocore knows."""

from __future__ import annotations

import tomllib

import click
import pytest

from lightbox.tools.deploy.templates import TEMPLATES, checked, kind_and_environment, with_environment
from support.deployment import GIVEN, IMAGE, Evaluation, requests_of, template
from support.parameters import each
from support.stack import REPOSITORY


@pytest.mark.extended
def test_cfn_lint_finds_nothing() -> None:
    from cfnlint.api import lint_file

    assert [str(match) for path in TEMPLATES.values() for match in lint_file(path)] == []


def test_each_is_described_found_in_deploy_and_small_enough_to_send() -> None:
    assert set(TEMPLATES) == {"component", "endpoint"}
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    assert project["tool"]["setuptools"]["package-data"]["lightbox.tools.deploy"] == ["*.yaml"], "wheels carry them"
    for name, path in TEMPLATES.items():
        assert all(parameter["Description"] for parameter in template(name)["Parameters"].values())
        assert (REPOSITORY / "deploy" / "sagemaker" / path.name).resolve() == path.resolve()
        # Seven containers may have the sixteen variables of a component, and CloudFormation takes 51,200 bytes.
        assert path.stat().st_size < 28_000


def test_every_container_has_the_settings() -> None:
    settings = {"LIGHTBOX_ENGINE": "auto", "LIGHTBOX_OPTIONS": '{"labels": "größe: 😀.txt"}'}
    for name in TEMPLATES:
        body = with_environment(name, settings)
        assert body.count("LIGHTBOX_ENGINE") == body.count(" Image: !")
        assert kind_and_environment(body) == (name, settings)
    with pytest.raises(click.ClickException, match="got one with another template"):
        kind_and_environment("Resources: {}")


class TestEndpoint:
    def test_in_real_time_the_least_busy_instance_answers_and_metrics_are_read(self) -> None:
        made = requests_of()
        assert made.keys() == {"Model", "EndpointConfig", "Endpoint", "ErrorsAlarm"}
        container = {"Image": IMAGE, "ModelDataUrl": "s3://b/model.tar.gz", "Environment": {}, "Mode": "SingleModel"}
        assert made["Model"]["PrimaryContainer"] == container
        (variant,) = made["EndpointConfig"]["ProductionVariants"]
        assert (variant["InstanceType"], variant["InitialInstanceCount"]) == ("ml.c6i.xlarge", 1)
        assert variant["RoutingConfig"] == {"RoutingStrategy": "LEAST_OUTSTANDING_REQUESTS"}
        metrics = {"EnableDetailedObservability": True, "MetricPublishFrequencyInSeconds": 10}
        assert made["EndpointConfig"]["MetricsConfig"] == metrics
        assert "DataCaptureConfig" not in made["EndpointConfig"]
        assert made["Endpoint"]["RetainAllVariantProperties"] is False

    def test_a_canary_goes_first_and_5xx_roll_back(self) -> None:
        made = requests_of(RolloutPercent="20", RolloutWaitSeconds="60", RollbackErrors="9")
        rollout = made["Endpoint"]["DeploymentConfig"]
        assert rollout["AutoRollbackConfiguration"]["Alarms"] == [{"AlarmName": "ErrorsAlarm"}]
        size = {"Type": "CAPACITY_PERCENT", "Value": 20}
        routing = {"Type": "CANARY", "CanarySize": size, "WaitIntervalInSeconds": 60}
        green = {"TerminationWaitInSeconds": 60, "TrafficRoutingConfiguration": routing}
        assert rollout["BlueGreenUpdatePolicy"] == green
        assert (made["ErrorsAlarm"]["MetricName"], made["ErrorsAlarm"]["Threshold"]) == ("Invocation5XXErrors", 9)

    @each("rollout", ["linear", "rolling", "all-at-once"])
    def test_other_rollouts(self, rollout: str) -> None:
        config = requests_of(Rollout=rollout)["Endpoint"]["DeploymentConfig"]
        size = {"Type": "CAPACITY_PERCENT", "Value": 10}
        if rollout == "rolling":
            assert config["RollingUpdatePolicy"] == {"MaximumBatchSize": size, "WaitIntervalInSeconds": 300}
            assert "BlueGreenUpdatePolicy" not in config
            return
        routing = config["BlueGreenUpdatePolicy"]["TrafficRoutingConfiguration"]
        linear = {"Type": "LINEAR", "LinearStepSize": size, "WaitIntervalInSeconds": 300}
        assert routing == (linear if rollout == "linear" else {"Type": "ALL_AT_ONCE", "WaitIntervalInSeconds": 300})

    def test_latency_rolls_back_as_well(self) -> None:
        made = requests_of(RollbackLatencyMicroseconds="200000")
        alarms = made["Endpoint"]["DeploymentConfig"]["AutoRollbackConfiguration"]["Alarms"]
        assert [alarm["AlarmName"] for alarm in alarms] == ["ErrorsAlarm", "LatencyAlarm"]
        assert made["LatencyAlarm"]["Threshold"] == 200_000

    def test_serverless(self) -> None:
        made = requests_of(Kind="serverless", MemoryMb="3072", MaxConcurrency="20")
        (variant,) = made["EndpointConfig"]["ProductionVariants"]
        assert variant["ServerlessConfig"] == {"MemorySizeInMB": 3072, "MaxConcurrency": 20}
        assert not {"InstanceType", "InitialInstanceCount", "RoutingConfig"} & variant.keys()
        assert "DeploymentConfig" not in made["Endpoint"] and "ErrorsAlarm" not in made

    def test_an_asynchronous_one_starts_its_first_instance_for_a_request(self) -> None:
        made = requests_of(Kind="asynchronous", Output="s3://b/answers", ScaleBy="backlog", ScaleFrom="0", ScaleTo="3")
        output = {"S3OutputPath": "s3://b/answers", "S3FailurePath": "s3://b/answers-failed"}
        assert made["EndpointConfig"]["AsyncInferenceConfig"]["OutputConfig"] == output
        assert (made["Instances"]["MinCapacity"], made["Instances"]["MaxCapacity"]) == (0, 3)
        tracking = made["LoadPolicy"]["TargetTrackingScalingPolicyConfiguration"]
        assert tracking["TargetValue"] == 5
        assert tracking["CustomizedMetricSpecification"]["MetricName"] == "ApproximateBacklogSizePerInstance"
        assert made["BacklogAlarm"]["MetricName"] == "HasBacklogWithoutCapacity"
        assert made["BacklogAlarm"]["AlarmActions"] == ["WakePolicy"]

    @each(
        "load",
        [
            ("concurrency", "SageMakerVariantConcurrentRequestsPerModelHighResolution", "", 2.25),
            ("invocations", "SageMakerVariantInvocationsPerInstance", "8700", 8700),
        ],
    )
    def test_requests_scale(self, load: tuple[str, str, str, float]) -> None:
        by, metric, given, target = load
        made = requests_of(ScaleBy=by, ScaleTarget=given)
        assert made["Instances"]["ResourceId"] == "endpoint/Endpoint/variant/AllTraffic"
        tracking = made["LoadPolicy"]["TargetTrackingScalingPolicyConfiguration"]
        assert tracking["PredefinedMetricSpecification"] == {"PredefinedMetricType": metric}
        assert tracking["TargetValue"] == target
        assert made["Endpoint"]["RetainAllVariantProperties"] is True

    def test_saturation_scales_by_two_alarms(self) -> None:
        made = requests_of(ScaleBy="saturation")
        series = 'avg({"lightbox_saturation", "aws.sagemaker.endpoint.name"="digits"})'
        queries = {
            name: made[name]["EvaluationCriteria"]["PromQLCriteria"]["Query"]
            for name in ("SaturatedAlarm", "IdleAlarm")
        }
        assert queries == {"SaturatedAlarm": f"{series} > 0.7", "IdleAlarm": f"{series} < 0.5 * 0.7"}
        assert made["SaturatedAlarm"]["AlarmActions"] == ["SaturationOutPolicy"]
        assert made["IdleAlarm"]["AlarmActions"] == ["SaturationInPolicy"]
        assert "LoadPolicy" not in made

    @each("count", [2, 3, 4, 5])
    def test_several_containers(self, count: int) -> None:
        names = [f"model-{number}" for number in range(count)]
        urls = [f"s3://b/{name}.tar.gz" for name in names]
        made = requests_of(ContainerHostnames=",".join(names), ModelData=",".join(urls))["Model"]
        assert made["InferenceExecutionConfig"] == {"Mode": "Direct"}
        assert [container["ContainerHostname"] for container in made["Containers"]] == names
        assert [container["ModelDataUrl"] for container in made["Containers"]] == urls
        assert "PrimaryContainer" not in made

    def test_many_models_and_a_folder_of_files(self) -> None:
        many = requests_of(ModelDataType="multi-model", ModelData="s3://b/models/")["Model"]["PrimaryContainer"]
        assert (many["Mode"], many["ModelDataUrl"]) == ("MultiModel", "s3://b/models/")
        folder = requests_of(ModelDataType="folder", ModelData="s3://b/models/")["Model"]["PrimaryContainer"]
        source = {"S3Uri": "s3://b/models/", "S3DataType": "S3Prefix", "CompressionType": "None"}
        assert folder["ModelDataSource"] == {"S3DataSource": source}
        assert "ModelDataUrl" not in folder

    def test_a_shadow_captured_requests_and_a_vpc(self) -> None:
        made = requests_of(
            ShadowModelData="s3://b/next.tar.gz",
            ShadowShare="0.5",
            CaptureTo="s3://b/captured",
            CapturePercent="20",
            Subnets="subnet-1,subnet-2",
            SecurityGroups="sg-1",
        )
        assert made["ShadowModel"]["PrimaryContainer"]["Image"] == IMAGE
        (shadow,) = made["EndpointConfig"]["ShadowProductionVariants"]
        assert (shadow["ModelName"], shadow["InitialVariantWeight"]) == ("ShadowModel", 0.5)
        capture = made["EndpointConfig"]["DataCaptureConfig"]
        assert (capture["InitialSamplingPercentage"], capture["DestinationS3Uri"]) == (20, "s3://b/captured")
        vpc = {"Subnets": ["subnet-1", "subnet-2"], "SecurityGroupIds": ["sg-1"]}
        assert made["Model"]["VpcConfig"] == made["ShadowModel"]["VpcConfig"] == vpc

    def test_a_component_on_an_endpoint_without_a_model(self) -> None:
        shared = Evaluation("endpoint", {"Role": GIVEN["Role"], "Kind": "components"})
        assert shared.objections() == []
        made = shared.requests()
        assert made.keys() == {"EndpointConfig", "Endpoint"}
        assert made["EndpointConfig"]["ExecutionRoleArn"] == GIVEN["Role"]
        assert "ModelName" not in made["EndpointConfig"]["ProductionVariants"][0]
        component = requests_of("component", Endpoint="shared", Cores="2", Copies="3")["Component"]
        assert component["Specification"]["ModelName"] == "Model"
        assert component["Specification"]["ComputeResourceRequirements"]["NumberOfCpuCoresRequired"] == 2
        assert component["RuntimeConfig"] == {"CopyCount": 3}


@each(
    "case",
    [
        ({"Image": ""}, "Image"),
        ({"Kind": "asynchronous"}, "Output"),
        ({"Kind": "asynchronous", "Output": "s3://b/o", "ScaleBy": "concurrency"}, "ScaleBy"),
        ({"ScaleBy": "backlog"}, "ScaleBy"),
        ({"ScaleFrom": "0"}, "ScaleFrom"),
        ({"Kind": "serverless", "ScaleBy": "concurrency"}, "ScaleBy"),
        ({"Kind": "serverless", "CaptureTo": "s3://b/c"}, "CaptureTo"),
        ({"ContainerHostnames": "a,b", "ModelDataType": "folder"}, "ModelDataType"),
        ({"ShadowModelData": "s3://b/m", "Kind": "serverless"}, "Kind"),
        ({"ModelDataType": "multi-model", "Kind": "components"}, "Kind"),
        ({"ContainerHostnames": "a,b", "ModelData": ""}, "ModelData"),
    ],
)
def test_values_that_do_not_fit_together_break_one_rule(case: tuple[dict[str, str], str]) -> None:
    (objection,) = Evaluation("endpoint", GIVEN | case[0]).objections()
    assert objection.startswith(f"{case[1]}: expected ")


@each(
    "case",
    [
        ({"ModelDta": "s3://b/m"}, "ModelDta: expected a parameter such as ModelData, got an unknown one"),
        ({"Kind": "fast"}, "Kind: expected one of real-time, serverless, asynchronous, components, got 'fast'"),
        ({"Role": "short"}, "Role: expected the ARN of a role, got 'short'"),
        ({"RolloutPercent": "51"}, "RolloutPercent: expected a number from 1 to 50, got '51'"),
        ({"InstanceCount": "0"}, "InstanceCount: expected a number from 1, got '0'"),
        ({"InstanceCount": "two"}, "InstanceCount: expected a number from 1, got 'two'"),
        ({"ModelData": "b/m"}, "ModelData: expected s3://BUCKET/KEY, or several separated by commas, got 'b/m'"),
        ({"ContainerHostnames": "one"}, "ContainerHostnames: expected 2 to 5 names"),
        ({"Image": "a b"}, "Image: expected registry/repository:tag, got 'a b'"),
        ({"MemoryMb": "1000"}, "MemoryMb: expected one of 1024, 2048"),
    ],
)
def test_a_value_is_refused_with_the_expected_ones(case: tuple[dict[str, str], str]) -> None:
    with pytest.raises(click.ClickException) as refused:
        checked(with_environment("endpoint", {}), GIVEN | case[0], {})
    assert refused.value.message.startswith(case[1])


def test_a_value_comes_from_the_command_the_stack_or_the_default() -> None:
    body = with_environment("endpoint", {})
    values = checked(body, {"ScaleTo": "9"}, GIVEN | {"ScaleTo": "8", "ScaleFrom": "2", "Gone": "1"})
    assert (values["ScaleTo"], values["ScaleFrom"], values["InstanceCount"]) == ("9", "2", "1")
    assert "Gone" not in values
    with pytest.raises(click.ClickException, match="Role: expected ARN of the execution role, got nothing"):
        checked(body, {}, {})
